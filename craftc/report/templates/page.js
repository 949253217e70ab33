(function(){
 document.querySelectorAll("table.sortable").forEach(function(t){
  t.querySelectorAll("th[data-sort]").forEach(function(th){
   var i=th.cellIndex,b=document.createElement("button");b.type="button";b.textContent=th.textContent;th.textContent="";th.appendChild(b);
   b.addEventListener("click",function(){
    var up=th.getAttribute("aria-sort")==="descending";
    t.querySelectorAll("th").forEach(function(o){o.removeAttribute("aria-sort")});th.setAttribute("aria-sort",up?"ascending":"descending");
    var body=t.tBodies[0];Array.from(body.rows).sort(function(a,c){return (a.cells[i].dataset.v-c.cells[i].dataset.v)*(up?1:-1)}).forEach(function(r){body.appendChild(r)});
   });
  });
 });
 function all(open){document.querySelectorAll("article details").forEach(function(d){d.open=open})}
 document.querySelectorAll("[data-open]").forEach(function(b){b.addEventListener("click",function(){all(b.dataset.open==="1")})});
 var was;window.addEventListener("beforeprint",function(){was=Array.from(document.querySelectorAll("details")).map(function(d){var o=d.open;d.open=true;return [d,o]})});
 window.addEventListener("afterprint",function(){(was||[]).forEach(function(p){p[0].open=p[1]})});
})();
