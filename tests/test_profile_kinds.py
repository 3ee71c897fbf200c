"""What a kernel is, told by its name."""

from __future__ import annotations

import pytest

from suites.profile.kinds import kind_of

KINDS = {
    "GEMM": [
        *("aten::bmm", "aten::mm", "aten::addmm", "aten::baddbmm", "aten::mv"),
        *("mkldnn::_linear_pointwise", "mkl::_mkl_linear"),
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn>",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
    ],
    "softmax": [
        *("aten::_softmax", "aten::_log_softmax", "aten::logsumexp", "aten::_safe_softmax"),
        "aten::_softmax_backward_data",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<float, float, float>",
    ],
    "attention kernel": [
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_efficient_attention_forward",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, softmax>",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128",
        *("triton_flash_forward", "triton_flash_forward_hopper", "triton_decode"),
        *("_fwd_kernel_splitK", "_splitK_reduce", "triton_tem_fused_flex_attention_0"),
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<0, 8, 32>",
    ],
    "copy": [
        *("aten::copy_", "aten::cat", "aten::index_select", "aten::gather", "aten::flip"),
        "Memcpy DtoD (Device -> Device)",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 128>",
    ],
    "fill": ["aten::fill_", "aten::zero_", "aten::tril", "Memset (Device)"],
    "elementwise": [
        *("aten::mul", "aten::mul_", "aten::add", "aten::sub", "aten::exp", "aten::where"),
        *("aten::masked_fill_", "aten::neg", "aten::div", "aten::tanh", "aten::threshold_backward"),
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    ],
    "reduction": [
        *("aten::sum", "aten::amax", "aten::mean", "aten::cumsum"),
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
    ],
    "normalisation": ["aten::native_layer_norm", "aten::native_layer_norm_backward"],
    "random numbers": ["aten::bernoulli_", "aten::native_dropout"],
    "fused by the compiler": [
        "## Call CompiledFxGraph fgzk2 ##",
        "triton_per_fused__softmax_mul_1",
        "triton_poi_fused_add_0",
        "graph_0_cpp_fused__softmax_0",
    ],
    "page faults": ["page_fault_user", "clear_page_erms"],
    "bookkeeping": [
        *("aten::view", "aten::transpose", "aten::expand", "aten::empty_strided", "aten::matmul"),
        *("aten::softmax", "aten::scaled_dot_product_attention", "aten::detach", "detach"),
        *("aten::new_zeros", "aten::scalar_tensor", "aten::promote_types"),
        "autograd::engine::evaluate_function: BmmBackward0",
        *("BmmBackward0", "cudaLaunchKernel", "cuLaunchKernelEx", "TorchDynamo Cache Lookup"),
    ],
    "other": ["mylib::thing", "onnxruntime_session"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kernel_is_follows_from_its_name(kind):
    assert {name: kind_of(name) for name in KINDS[kind]} == dict.fromkeys(KINDS[kind], kind)
