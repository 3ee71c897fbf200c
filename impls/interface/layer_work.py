"""What a part of a layer costs, by arithmetic alone: as `cost` counts its core. No torch here.

A product of a weight matrix is 2 FLOP a weight and token, and twice that backward, for the
gradients of its input and of its weights. Norms, ReLU, dropout and sums of residuals are not
counted. There are no biases but the norms'.
"""

from __future__ import annotations

from dataclasses import dataclass

from impls.interface import cost as core_cost
from impls.interface import layer_cost
from impls.interface.around import Around
from impls.interface.layer_problem import core_of
from impls.interface.problem import DTYPE_BYTES, Problem

# Forward one product of each matrix, backward two: in halves of forward's FLOP.
_PRODUCTS = {"forward": 1, "backward": 2, "forward_backward": 3}


@dataclass(frozen=True)
class Weights:
    """The weights of a layer and its block, by what multiplies with them.

    Attributes:
        queries_keys: of every new token: its queries, and its keys and values or their latent.
        expanding: those that make keys and values of latents, for every token attended to.
        output: the output projection, and what makes values of an absorbed core's latents.
        feed_forward: both matrices.
        norms: scale and shift of the two LayerNorms of a block; they multiply no matrix.
    """

    queries_keys: int
    expanding: int
    output: int
    feed_forward: int
    norms: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.queries_keys + self.expanding + self.output + self.feed_forward + self.norms


def weights(problem: Problem) -> Weights:
    """The weights that a part of a layer has; 0 for those that it does without."""
    around = _around(problem)
    shape, of, part = around.shape, around.shape.latent, around.part
    has_projections = part == "projections" or around.has_core
    has_output = part == "output" or around.has_core
    output, expanding = shape.H * (of.d_v if of else shape.d_h) * shape.d_model, 0
    queries_keys = layer_cost.weights(shape) - output
    if of is not None:
        k_up, v_up = of.d_c * shape.H * shape.d_h, of.d_c * shape.H * of.d_v
        queries_keys -= k_up + v_up
        if around.is_absorbed:
            # W_UK meets the queries and W_UV what the core gives, each once a new token.
            queries_keys, output = queries_keys + k_up, output + v_up
        else:
            expanding = k_up + v_up
    return Weights(
        queries_keys=queries_keys * has_projections,
        expanding=expanding * has_projections,
        output=output * has_output,
        feed_forward=2 * shape.d_model * around.d_ff,
        norms=4 * shape.d_model * (part == "block"),
    )


def cost(problem: Problem, pass_: str = "forward", convention: str = "exact") -> core_cost.Cost:
    """All counts of a part of a layer and pass; pairs and exponentials are its core's.

    Raises:
        ValueError: nothing is around the core, or the pass or the convention is not known.
    """
    has_core = _around(problem).has_core
    core = core_cost.cost(core_of(problem), pass_, convention)
    return core_cost.Cost(
        pairs=core.pairs if has_core else 0,
        flop=flop(problem, pass_, convention),
        flop_convention=convention,
        exp=core.exp if has_core else 0,
        compulsory_bytes=compulsory_bytes(problem, pass_),
    )


def flop(problem: Problem, pass_: str = "forward", convention: str = "exact") -> int:
    """The useful FLOP of a part of a layer: of its products, and of its core as `cost` has it.

    Each weight is met by the B·T_q new tokens; those that expand latents by all B·T_kv.
    """
    around, of = _around(problem), weights(problem)
    each = of.queries_keys + of.output + of.feed_forward
    products = 2 * problem.B * (problem.T_q * each + problem.T_kv * of.expanding)
    core = core_cost.flop(core_of(problem), pass_, convention)
    return _PRODUCTS[pass_] * products + (core if around.has_core else 0)


def compulsory_bytes(problem: Problem, pass_: str = "forward") -> int:
    """The bytes any implementation must move: what a part is given and gives, and its weights.

    Forward reads its input and every weight and writes its output. Of the T_kv − T_q tokens in the
    cache it reads what is kept (with a window: of those that are seen) and writes what is kept of
    the new ones. Backward reads input, weights and the output's gradient, and writes the gradients
    of input and weights; both passes together are the sum. What one product hands to the next
    need not leave the chip.
    """
    around, element = _around(problem), DTYPE_BYTES[problem.dtype]
    given, made = _ends(problem, around)
    weight = weights(problem).count
    forward = given + made + weight + _kept(problem, around)
    backward = 2 * given + made + 2 * weight
    return (
        element
        * {
            "forward": forward,
            "backward": backward,
            "forward_backward": forward + backward,
        }[pass_]
    )


def _ends(problem: Problem, around: Around) -> tuple[int, int]:
    """The elements of a part's input and of its output; those that go to a cache are not in it."""
    p, tokens = problem, problem.B * problem.T_q * around.shape.d_model
    if around.part == "output":
        return p.B * p.H * p.T_q * p.d_v, tokens
    if around.part != "projections":
        return tokens, tokens
    made = p.B * p.H * p.T_q * p.d_h
    is_kept_instead = p.T_kv > p.T_q and (around.shape.latent is None or around.is_absorbed)
    if is_kept_instead:
        return tokens, made
    if around.is_absorbed:
        # The key is the value too: its first d_c elements.
        return tokens, made + p.B * p.T_kv * p.d_h
    return tokens, made + p.B * p.H_kv * p.T_kv * (p.d_h + p.d_v)


def _kept(problem: Problem, around: Around) -> int:
    """The elements of the cache that are read and written; none where there is no cache."""
    p, shape, of = problem, around.shape, around.shape.latent
    has_heads = around.part == "projections" or around.has_core
    if p.T_kv == p.T_q or not has_heads:
        return 0
    seen = p.T_kv if p.window is None else min(p.T_kv, p.T_q + p.window - 1)
    is_read = around.has_core or (of is not None and not around.is_absorbed)
    tokens = p.T_q + (max(0, seen - p.T_q) if is_read else 0)
    return p.B * tokens * (2 * shape.H_kv * shape.d_h if of is None else of.d_c + of.d_R)


def _around(problem: Problem) -> Around:
    if problem.around is None:
        raise ValueError(f"{problem} has nothing around its core: cost.cost counts it")
    return problem.around
