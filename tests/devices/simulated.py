"""A pretend accelerator, device `sim`: computes on the CPU, to the CPU's bits, and refuses what real devices refuse.

It is a torch backend written in Python (`torch.utils.backend_registration`), so autograd, custom functions, modules and
optimizers treat it like any other device, and `torch.accelerator` finds it. A process has one such backend, and that
has one character:

    cuda-like   refuses what CUDA refuses
    mps-like    the same, and what MPS does not have: float64, sparse CSR tensors, factorizations

`install` makes a process of one of them; tests call it in processes of their own, because other tests want a machine
without accelerator. REFUSALS names, for each refusal, what torch says about the real device.

Not imitated: limits of memory and of launches, rounding, kernels whose sums depend on the order of threads, and what
torch computes on the CPU by itself if PYTORCH_ENABLE_MPS_FALLBACK is set. The mps-like character has what the oldest
torch that is supported has: later ones factorize some matrices on MPS.
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors
from torch.utils._mode_utils import no_dispatch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

Character = Literal["cuda-like", "mps-like"]
CHARACTERS: tuple[Character, ...] = ("cuda-like", "mps-like")
NAME = "sim"
aten = torch.ops.aten


class Refusal(NamedTuple):
    """Something that a real device does not do."""

    error: type[Exception]
    message: str
    """As torch words it, with the device's name replaced."""
    source: str
    """Where torch or its issues say so."""
    characters: tuple[Character, ...] = CHARACTERS


REFUSALS = {
    "mixed devices": Refusal(
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, sim:0 and cpu!",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html: cross-device operations are not allowed, except copies "
        "and scalars; https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-device",
    ),
    "indices elsewhere": Refusal(
        RuntimeError,
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        "https://github.com/alibaba/graphlearn-for-pytorch/issues/9, since torch 1.13",
    ),
    "numpy": Refusal(
        TypeError,
        "can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html: force=False needs a tensor on the CPU",
    ),
    "generator of the CPU": Refusal(
        RuntimeError,
        "Expected a 'sim' device type for generator but found 'cpu'",
        "https://github.com/pytorch/pytorch/issues/58545; https://github.com/pytorch/pytorch/pull/59352",
    ),
    "integer products": Refusal(
        RuntimeError,
        "\"addmm_cuda\" not implemented for 'Long'",
        "https://github.com/pytorch/pytorch/issues/44428: cuBLAS has no integer types",
    ),
    "results before they are there": Refusal(
        RuntimeError,
        "the host may read this copy before it is complete; copy with non_blocking=False",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html: a copy to the CPU with "
        "non_blocking=True must be followed by synchronize()",
    ),
    "sources that change under way": Refusal(
        RuntimeError,
        "the device may read the host's memory later; copy with non_blocking=False",
        "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html: asynchronous copies from the CPU are "
        "safe without synchronize() only if the target is a CUDA device, not on MPS",
        ("mps-like",),
    ),
    "a device that is not there": Refusal(
        RuntimeError,
        "invalid device ordinal",
        "https://github.com/pytorch/pytorch/issues/29516",
    ),
    "float64": Refusal(
        TypeError,
        "Cannot convert a SIM Tensor to float64 dtype as the SIM framework doesn't support float64. Please use float32 "
        "instead.",
        "https://github.com/pytorch/pytorch/issues/122602: closed as a known limitation of Metal",
        ("mps-like",),
    ),
    "sparse layouts": Refusal(
        NotImplementedError,
        "Could not run 'new_compressed_tensor' from the 'sim:0' device.",
        "https://github.com/pytorch/pytorch/issues/129842; https://github.com/pytorch/pytorch/issues/196192, open",
        ("mps-like",),
    ),
    "factorizations": Refusal(
        NotImplementedError,
        "The operator is not currently implemented for the SIM device.",
        "https://github.com/pytorch/pytorch/issues/177370 (qr); https://github.com/pytorch/pytorch/issues/151874 "
        "(eigh, until June 2026); https://github.com/pytorch/pytorch/issues/77764 (others)",
        ("mps-like",),
    ),
}
"""Every refusal by name."""

_installed: list[Character] = []
_operations = [0]


def operations() -> int:
    """How many operations have run on the device."""
    return _operations[0]


def install(character: Character) -> torch.device:
    """Give this process the accelerator; a process that has another one raises.

    Args:
        character: What it refuses.

    Returns:
        The device.
    """
    if not _installed:
        _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
        _library.fallback(_dispatched, "PrivateUse1")
        _device_constructors()  # remembers the constructors below as they are, for `with torch.device(...)`
        for place, name in ((torch, "tensor"), (torch, "as_tensor"), (torch.Tensor, "new_tensor")):
            setattr(place, name, _made_on_host(getattr(place, name)))
        _installed.append(character)
    if _installed[0] != character:
        raise RuntimeError(f"this process has a {_installed[0]} device; install {character!r} in another process")
    return torch.device(NAME, 0)


def has(name: str) -> bool:
    """Whether the character does what a refusal is about."""
    return _installed[0] not in REFUSALS[name].characters


def refuse(name: str) -> None:
    """Raise the refusal, if the character has it."""
    if not has(name):
        raise REFUSALS[name].error(REFUSALS[name].message)


def _made_on_host(make: Any) -> Any:
    """A constructor from Python numbers, which torch cannot give a backend in Python: on the host, then moved."""

    @functools.wraps(make)
    def made(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        place = args[0].device if device is None and isinstance(args[0], Sim) else device
        if place is None or torch.device(place).type != NAME or isinstance(args[-1], torch.Tensor):
            return make(*args, device=device, **kwargs)
        return make(*args, device="cpu", **kwargs).to(place)

    return made


class _Module:
    """`torch.sim`: what torch asks of the module of a backend."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """As before Ampere: only in software (https://github.com/pytorch/pytorch/pull/148322)."""
        return including_emulation

    def synchronize(self, device: object = None) -> None:
        """Nothing to wait for."""


class Sim(torch.Tensor):
    """A tensor on the device: an empty shell around one on the CPU. CSR tensors have a shell of the dense shape."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> "Sim":
        place: dict[str, Any] = {"dtype": host.dtype, "device": torch.device(NAME, 0)}
        if host.layout is torch.strided:
            place |= {"strides": host.stride(), "storage_offset": host.storage_offset()}
        shell = torch.Tensor._make_wrapper_subclass(cls, host.shape, **place)
        shell.host = host
        return shell

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatched(func, *args, **(kwargs or {}))

    @property
    def layout(self) -> torch.layout:  # type: ignore[override]
        return self.host.layout

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.host.layout is torch.sparse_csr

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_indexable(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_indexable(index), value)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) not in memo:
            copied = Sim(self.host.detach().clone())
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad) if is_parameter else copied
        return memo[id(self)]

    def tolist(self) -> Any:
        return self.host.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.host.detach().numpy()
        return refuse("numpy")

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self.numpy()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Sim({self.host!r})"


def _indexable(index: Any) -> Any:
    """Lists as tensors, which torch cannot make of them for a backend in Python."""
    if isinstance(index, tuple):
        return tuple(_indexable(each) for each in index)
    return torch.tensor(index) if isinstance(index, list) else index


_COPIES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default, aten._copy_from_and_resize.default}
_INDEXING = ("aten::index", "aten::_unsafe_index", "aten::index_put", "aten::_index_put_impl")
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot")
_FACTORIZATIONS = (
    *("linalg_qr", "linalg_eigh", "_linalg_eigh", "_linalg_svd", "linalg_svd", "linalg_eig", "geqrf", "ormqr"),
    *("linalg_lstsq", "linalg_pinv", "linalg_cholesky_ex", "linalg_ldl_factor_ex", "linalg_eigvalsh"),
)
_UNSET = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_library = torch.library.Library("_", "IMPL")


def _dispatched(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Every operation on the device: refuse it, or compute it on the host and wrap the results."""
    _operations[0] += 1
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    name = op.name().removeprefix("aten::").split(".")[0]
    _check_devices(op, args, tensors)
    if name.rstrip("_") in _PRODUCTS and any(each.dtype in _INTEGERS for each in tensors):
        refuse("integer products")
    if name in _FACTORIZATIONS:
        refuse("factorizations")
    generator = kwargs.get("generator") or next((each for each in args if isinstance(each, torch.Generator)), None)
    if generator is not None and generator.device.type == "cpu":
        refuse("generator of the CPU")
    place = kwargs.get("device")
    goes_to_host = place is not None and torch.device(place).type == "cpu"
    if goes_to_host and kwargs.get("non_blocking"):
        refuse("results before they are there")
    if op is aten.copy_.default and len(args) > 2 and args[2]:
        refuse("sources that change under way" if isinstance(args[0], Sim) else "results before they are there")
    if place is not None and not goes_to_host and (torch.device(place).index or 0) > 0:
        refuse("a device that is not there")
    if torch.Tag.inplace_view in op.tags and isinstance(args[0], Sim):
        _reshape_shell(op, args, kwargs)
    args, kwargs = pytree.tree_map(_on_host, (args, kwargs))
    if name in _UNSET and (place is not None or tensors):
        kwargs = {**kwargs, "device": torch.device("cpu")} if place is not None else kwargs
        return _wrapped(_with_garbage(op(*args, **kwargs)))
    if op is aten._copy_from.default:
        return _copied(args[0], tensors[1], args[1])
    result = op(*args, **({**kwargs, "device": torch.device("cpu")} if place is not None else kwargs))
    if goes_to_host:
        return result
    for each in tensors:
        if isinstance(each, Sim) and each.shape != each.host.shape:  # an empty `out` grew
            _reshape_shell(aten.set_.source_Tensor, (each, Sim(each.host)), {})
    same = {id(each.host): each for each in tensors if isinstance(each, Sim)}
    return pytree.tree_map(lambda each: same[id(each)] if id(each) in same else _wrapped(each), result)


_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def _check_devices(op: Any, args: Sequence[Any], tensors: list[torch.Tensor]) -> None:
    """One device for all tensors, but numbers (0 dimensions) may be on the CPU, and so may indices."""
    if op in _COPIES or not any(isinstance(each, Sim) for each in tensors):
        return
    if op.name().startswith(_INDEXING) and isinstance(args[1], list | tuple):
        if not isinstance(args[0], Sim):
            refuse("indices elsewhere")
        tensors = [each for each in (args[0], *args[2:]) if isinstance(each, torch.Tensor)]
    if any(not isinstance(each, Sim) and each.dim() > 0 for each in tensors):
        refuse("mixed devices")


def _reshape_shell(op: Any, args: Any, kwargs: Any) -> None:
    """Do to the shell what an operation such as `squeeze_` is about to do to the host: change its shape."""
    with no_dispatch():
        included = torch._C._meta_in_tls_dispatch_include()
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            op(*args, **kwargs)
        finally:
            torch._C._set_meta_in_tls_dispatch_include(included)


def _with_garbage(memory: torch.Tensor) -> torch.Tensor:
    """Memory that was not initialized may hold anything, so it holds what spoils a result."""
    return memory.fill_(torch.nan) if memory.is_floating_point() else memory


def _copied(source: torch.Tensor, target: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    host.copy_(source)
    return target


def _on_host(value: Any) -> Any:
    if isinstance(value, Sim):
        return value.host
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _wrapped(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, Sim):
        return value
    if value.dtype in (torch.float64, torch.complex128):
        refuse("float64")
    if value.layout is not torch.strided:
        refuse("sparse layouts")
    return Sim(value)
