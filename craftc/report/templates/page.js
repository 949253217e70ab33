(function(){
 function each(css,f,root){Array.from((root||document).querySelectorAll(css)).forEach(f)}
 // tables: a button in every head of a column that sorts; texts ascend first, numbers descend
 each("table.sortable",function(table){
  each("th[data-sort]",function(th){
   var i=th.cellIndex,text=th.dataset.sort==="t",b=document.createElement("button");
   b.type="button";b.textContent=th.textContent;th.textContent="";th.appendChild(b);
   function value(row){var c=row.cells[i];return text?c.textContent.trim():+c.dataset.v}
   b.addEventListener("click",function(){
    var now=th.getAttribute("aria-sort"),up=now?now==="descending":text,body=table.tBodies[0];
    each("th",function(o){o.removeAttribute("aria-sort")},table);
    th.setAttribute("aria-sort",up?"ascending":"descending");
    Array.from(body.rows).sort(function(r,s){
     var x=value(r),y=value(s);return (text?x.localeCompare(y):x-y)*(up?1:-1)
    }).forEach(function(r){body.appendChild(r)});
   });
  },table);
 });
 // filter: clusters whose name or sentence contains a text
 var find=document.getElementById("find");
 function filter(){
  var wanted=find.value.trim().toLowerCase(),shown={},n=0,all=0;
  each("article[data-k]",function(a){
   var hit=a.querySelector(".card-head").textContent.toLowerCase().indexOf(wanted)>=0;
   shown[a.dataset.k]=hit;n+=hit;all++;
  });
  each("[data-k]",function(e){e.hidden=!shown[e.dataset.k]});
  find.parentNode.querySelector("[role=status]").textContent=wanted?n+" of "+all+" clusters":"";
 }
 function goal(){
  var e=location.hash.length>1&&document.getElementById(location.hash.slice(1));
  if(find&&e&&e.hidden){find.value="";filter();e.scrollIntoView()}
 }
 if(find){find.addEventListener("input",filter);window.addEventListener("hashchange",goal)}
 // details: all at once, and open on paper
 function all(open){each("article details",function(d){d.open=open})}
 each("[data-open]",function(b){b.addEventListener("click",function(){all(b.dataset.open==="1")})});
 var was=[];
 window.addEventListener("beforeprint",function(){
  each("details:not(.not-in-print)",function(d){was.push([d,d.open]);d.open=true});
 });
 window.addEventListener("afterprint",function(){was.forEach(function(p){p[0].open=p[1]});was=[]});
})();
