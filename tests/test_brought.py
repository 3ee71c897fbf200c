import textwrap

import pytest
import torch

from impls.interface.attention import Implementation, Unsupported, attend, reasons_against
from impls.interface.brought import bring
from impls.interface.problem import Problem

PLAIN = "import torch\nfrom torch.nn.functional import scaled_dot_product_attention as sdpa\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_(text, name="mykernel.py"):
        (tmp_path / name).write_text(PLAIN + textwrap.dedent(text))
        return name

    return write_


def test_a_function_of_q_k_v_alone_has_reasons_against_the_rest(write):
    write("def plain(q, k, v):\n    return sdpa(q, k, v)\n")
    brought = bring("mykernel.py:plain")
    assert brought.name == "plain"
    assert brought.source == "mykernel.py:plain"
    problem = Problem.parse("T=8,H=2,d_h=16")
    assert reasons_against(brought, problem, "cpu") == []
    assert "its signature has no `causal`" in reasons_against(
        brought, problem.with_(causal=True), "cpu"
    )
    windowed = reasons_against(brought, problem.with_(causal=True, window=3), "cpu")
    assert "its signature has no `window`" in windowed
    for need in ("mask", "scale", "softcap"):
        assert f"its signature has no `{need}`" in reasons_against(brought, problem, "cpu", [need])
    assert reasons_against(brought, problem, "cpu", ["lse"]) == ["lse is not supported"]
    q = torch.randn(1, 2, 8, 16)
    assert attend(brought, q, q, q)[0].shape == q.shape
    with pytest.raises(Unsupported, match="no `softcap`"):
        attend(brought, q, q, q, softcap=2.0)
    with pytest.raises(Unsupported, match="no `scale`"):
        attend(brought, q, q, q, scale=0.0)


def test_any_keywords_mean_all_keywords(write):
    write("def every(q, k, v, **words):\n    every.seen = words\n    return sdpa(q, k, v)\n")
    brought = bring("mykernel.py:every")
    problem = Problem.parse("T=8,H=2,d_h=16,causal,window=3")
    assert reasons_against(brought, problem, "cpu", ["mask", "scale", "softcap"]) == []


def test_a_keyword_without_default_is_always_given_and_others_keep_theirs(write):
    write(
        """
        def strict(q, k, v, causal, scale=0.125):
            assert causal is False and scale == 0.125
            return sdpa(q, k, v)
        """
    )
    q = torch.randn(1, 2, 8, 16)
    assert attend(bring("mykernel.py:strict"), q, q, q)[0].shape == q.shape


def test_a_flag_of_another_name_is_told(write):
    write("def kernel8(q, k, v, is_causal=False):\n    return sdpa(q, k, v, is_causal=is_causal)\n")
    brought = bring("mykernel.py:kernel8")
    problem = Problem.parse("T=8,H=2,d_h=16")
    assert reasons_against(brought, problem, "cpu") == []
    *_, told = reasons_against(brought, problem.with_(causal=True), "cpu")
    assert told == "a flag that it calls `is_causal` is given as `causal`"


def test_a_generic_name_takes_the_files(write):
    write("def attention(q, k, v):\n    return sdpa(q, k, v)\n")
    assert bring("mykernel.py:attention").name == "mykernel_attention"
    assert bring("mykernel.py:attention", name="mine").name == "mine"


def test_attributes_say_what_a_signature_cannot(write):
    write(
        """
        def kernel8(q, k, v, causal=False):
            return sdpa(q, k, v, is_causal=causal)
        def with_lse(q, k, v, causal=False):
            return sdpa(q, k, v, is_causal=causal), q.sum(-1)
        kernel8.lse = with_lse
        kernel8.passes = ("forward",)
        kernel8.devices = "cpu"
        kernel8.dtypes = ["float32"]
        kernel8.gqa = False
        kernel8.max_d_h = 128
        kernel8.runs = ("flash",)
        kernel8.synchronize = lambda: None
        """
    )
    brought = bring("mykernel.py:kernel8")
    problem = Problem.parse("T=8,H=2,H_kv=1,d_h=256,bfloat16")
    reasons = reasons_against(brought, problem, "cuda", ["backward"])
    assert len(reasons) == 5
    assert brought.runs == ("flash",)
    assert brought.synchronize is not None
    q = torch.randn(1, 2, 8, 16)
    lse = attend(brought, q, q, q, with_lse=True)[1]
    assert lse is not None and lse.shape == (1, 2, 8)


def test_an_implementation_is_taken_as_it_is(write):
    write(
        """
        from impls.interface.attention import Implementation
        ready = Implementation("ready", lambda q, k, v, **_: sdpa(q, k, v), "one of theirs")
        """
    )
    brought = bring("mykernel.py:ready")
    assert isinstance(brought, Implementation)
    assert (brought.name, brought.source) == ("ready", "mykernel.py:ready")


def test_a_module_is_found_from_the_current_folder(write):
    write("def plain(q, k, v):\n    return sdpa(q, k, v)\n", name="kernel_in_a_module.py")
    assert bring("kernel_in_a_module:plain").name == "plain"


def test_an_instance_of_a_torch_module_is_a_function(write):
    write(
        """
        class Attention(torch.nn.Module):
            def forward(self, q, k, v, causal=False):
                return sdpa(q, k, v, is_causal=causal)
        layer = Attention()
        """
    )
    brought = bring("mykernel.py:layer")
    assert brought.capabilities.causal
    assert not brought.capabilities.window
    with pytest.raises(ValueError, match="is a class"):
        bring("mykernel.py:Attention")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mykernel.py", 'names no function: it has plain, .*; write "mykernel.py:strange"'),
        ("mykernal.py", 'no file .*mykernal.py: did you mean "mykernel.py"'),
        ("sdpa_flash", 'names no function: write "package.module:function"'),
        ("mykernal.py:plain", 'mykernal.py: did you mean "mykernel.py"'),
        ("mykernel.py:plane", 'did you mean "plain"'),
        ("mykernel.py:number", "is of type int, not a function"),
        ("mykernel.py:one", "takes 1 arguments"),
        ("mykernel.py:strange", "must be given dropout"),
        ("no_such_module:plain", 'no module "no_such_module"'),
    ],
)
def test_what_cannot_be_brought_is_told_with_what_would_do(write, text, message):
    write(
        """
        number = 3
        def plain(q, k, v): return q
        def one(q): return q
        def strange(q, k, v, dropout): return q
        """
    )
    with pytest.raises(ValueError, match=message):
        bring(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 / 0\n", r"broken.py:3: ZeroDivisionError: division by zero"),
        ("def f(:\n", r"broken.py:3: SyntaxError"),
        ("import no_such_library\n", r"broken.py:3: ModuleNotFoundError"),
        ("def deep(): undefined\ndeep()\n", r"broken.py:3: NameError"),
    ],
)
def test_an_error_in_the_users_file_is_told_with_its_line(write, text, message):
    write(text, name="broken.py")
    with pytest.raises(ValueError, match=message):
        bring("broken.py:f")


def test_a_file_that_changed_is_read_again(write):
    write("def plain(q, k, v): return 'first'\n")
    first = bring("mykernel.py:plain")
    again = bring("mykernel.py:plain")
    write("def plain(q, k, v): return 'second one'\n")
    changed = bring("mykernel.py:plain")
    q = torch.zeros(1, 1, 1, 1)
    assert [b.forward(q, q, q) for b in (first, again, changed)] == ["first", "first", "second one"]
