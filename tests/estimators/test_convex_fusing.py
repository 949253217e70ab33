"""The penalty at which everything is fused: by conjugate gradients and a tree as by a factorisation, and
never too small.
"""

from __future__ import annotations

import numpy as np
import pytest

from craftc._fusion.graph import Graph, lengths
from craftc.convex import fusing
from craftc.convex.estimator import gaussian_weights


def graph_of(rng, n, p, n_components=1):
    """The graph of nearest neighbours in each of some groups of rows, and the rows less their mean."""
    rows = rng.normal(size=(n, p))
    group = np.arange(n) % n_components
    edges, weights = [], []
    for k in range(n_components):
        own = np.flatnonzero(group == k)
        near = gaussian_weights(rows[own], 4).tocoo()
        upper = near.coords[0] < near.coords[1]
        edges.append(np.stack([own[near.coords[0][upper]], own[near.coords[1][upper]]], axis=1))
        weights.append(near.data[upper] * rng.uniform(0.1, 10.0, upper.sum()))
    edge, weight = np.concatenate(edges), np.concatenate(weights)
    order = np.lexsort((edge[:, 1], edge[:, 0]))
    graph = Graph(n, np.ascontiguousarray(edge[order], np.int32), weight[order], np.zeros(len(order), bool))
    return graph, rows - rows.mean(axis=0)


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize(("n", "p"), [(2, 1), (9, 2), (60, 3), (300, 6), (300, 1)])
def test_gradients_give_the_penalty_of_a_factorisation(n, p, n_components, monkeypatch):
    graph, spread = graph_of(np.random.default_rng(n + p), n, p, min(n_components, n // 2))
    exact = fusing.fusing_penalty(graph, spread)
    monkeypatch.setattr(fusing, "_PRODUCTS", 0.0)
    assert fusing.fusing_penalty(graph, spread) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 5, 30])
def test_a_flow_that_is_cut_short_goes_along_the_tree(steps, monkeypatch):
    """At larger penalties all flows together still move every row to the mean of its component."""
    graph, spread = graph_of(np.random.default_rng(0), 200, 2, 2)
    exact = fusing.fusing_penalty(graph, spread)
    monkeypatch.setattr(fusing, "_PRODUCTS", 0.0)
    monkeypatch.setattr(fusing, "_MOST_STEPS", steps)
    assert fusing.fusing_penalty(graph, spread) >= exact * (1 - 1e-9)
    label = np.arange(200) % 2
    load = spread - np.stack([spread[label == k].mean(axis=0) for k in range(2)])[label]
    i, j = graph.edge.T
    adjacency = np.zeros((200, 200))
    adjacency[i, j] = adjacency[j, i] = graph.weight
    sparse = fusing.coo_array(adjacency).tocsr()
    potential, left = fusing.conjugate_gradients(sparse, load)
    sent = adjacency.sum(axis=1)[:, None] * potential - adjacency @ potential  # by every row along its edges
    np.testing.assert_allclose(sent + left, load, atol=1e-9)
    parent, flow = fusing.tree_flow(sparse, label, left)
    out = np.where((parent >= 0)[:, None], flow, 0.0)
    np.add.at(out, parent[parent >= 0], -flow[parent >= 0])
    np.testing.assert_allclose(out, left, atol=1e-9)
    assert (adjacency[np.flatnonzero(parent >= 0), parent[parent >= 0]] > 0).all()
    assert (parent < 0).sum() == 2
    assert lengths(left).max() > 0
