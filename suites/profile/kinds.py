"""What an operator or kernel is, in plain words, told by its name: the first rule that fits."""

from __future__ import annotations

import re
from dataclasses import dataclass

BOOKKEEPING, OTHER, PAGE_FAULTS = "bookkeeping", "other", "page faults"


@dataclass(frozen=True)
class Rule:
    """Names that contain `pattern`, letter case aside, are `kind`."""

    kind: str
    pattern: str

    def fits(self, name: str) -> bool:
        """Whether the name is of this kind."""
        return re.search(self.pattern, name, re.IGNORECASE) is not None


# Names as torch's profiler, CUDA's libraries, Triton and Inductor give them. The order matters:
# what holds another's word comes first (a flash kernel has "softmax" in its template arguments).
RULES = (
    Rule(PAGE_FAULTS, r"page[ _]?fault|clear_page|do_anonymous_page"),
    # Views, allocations, and operators whose work is done by those that they call.
    Rule(
        BOOKKEEPING,
        r"^aten::(view\w*|reshape|_reshape_alias|_unsafe_view|transpose|swapaxes|permute|t|[mH]?T|"
        r"as_strided|expand\w*|unsqueeze|squeeze|slice|select|narrow|chunk|split\w*|unbind|"
        r"unflatten|flatten|detach_?|alias|lift_fresh|resolve_\w+|empty\w*|new_\w+|scalar_tensor|"
        r"result_type|promote_types|can_cast|is_\w+|size|stride|broadcast_to|set_|resize_|"
        r"matmul|linear|einsum|contiguous|clone|to|_to_copy|type_as|zeros|zeros_like|ones|"
        r"ones_like|full|full_like|softmax|log_softmax|where_self|dropout|layer_norm|"
        r"scaled_dot_product_attention|_scaled_dot_product_attention_math|multi_head_attention\w*|"
        r"repeat_interleave|pad|silu_?|outer)$"
        r"|^detach$|^autograd::|^torch::autograd|backward\d+$|^\[memory\]|"
        r"^(TorchDynamo|Pregraph|AOTDispatcher|Torch-Compiled|CompiledFunction)|"
        r"(?-i:^cu(da)?[A-Z]\w*$)|Activity Buffer Request|Lazy Function Loading",
    ),
    Rule("copy", r"^Mem(cpy|ory copy)"),
    Rule("fill", r"^Memset"),
    Rule(
        "attention kernel",
        r"_scaled_dot_product_|flash|fmha|_attn|attention|splitk_(reduce|kernel)|_fwd_kernel_splitK|"
        r"triton_(flash|decode)|(prefill|decode)with\w*kvcache|flex|sdpa",
    ),
    Rule("GEMM", r"gemm|cutlass|xmma|nvjet|wgmma|splitkreduce|gemv|cublas"),
    Rule("GEMM", r"::_?(mm|bmm|addmm|baddbmm|addbmm|addmv|mv|dot|vdot|_scaled_mm|addr)(\.|$|_out)"),
    Rule("GEMM", r"mkl(dnn)?\w*(::)?\w*linear|onednn|dnnl"),
    Rule("fused by the compiler", r"CompiledFxGraph|cpp_fused|triton_(poi|per|red|tem)_fused"),
    Rule("softmax", r"soft_?max|logsumexp"),
    Rule("normalisation", r"(layer|rms|group|batch)_?norm"),
    Rule("random numbers", r"dropout|bernoulli|philox|random|distribution|_rand|normal_"),
    Rule("copy", r"copy|::(cat|stack|index|index_select|gather|repeat|roll|flip|constant_pad_nd)"),
    Rule("copy", r"CatArray|gather|indexing|transpose"),
    Rule("fill", r"::(fill|zero)_|FillFunctor|::(arange|tril|triu|eye)"),
    Rule("reduction", r"::(sum|mean|amax|amin|max|min|cumsum|norm|any|all|prod|var\w*)(\.|$)"),
    Rule("reduction", r"reduce|reduction|scan"),
    Rule(
        "elementwise",
        r"elementwise|vectorized|::_?(add|sub|rsub|mul|div|neg|exp2?|expm1|log|pow|sqrt|rsqrt|"
        r"reciprocal|where|masked_fill|clamp\w*|relu|gelu|silu|tanh|sigmoid|threshold|maximum|"
        r"minimum|abs|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|addcmul|addcdiv|lerp|sin|cos|"
        r"isneginf|isnan|isfinite|nan_to_num)(_?backward)?_?(\.|$)",
    ),
)


def kind_of(name: str) -> str:
    """The kind of what has this name; "other" where no rule knows it.

    >>> kind_of("aten::bmm"), kind_of("aten::_softmax"), kind_of("my::kernel")
    ('GEMM', 'softmax', 'other')
    """
    return next((rule.kind for rule in RULES if rule.fits(name)), OTHER)
