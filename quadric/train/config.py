"""What is trained, and how."""

from dataclasses import dataclass
from typing import Literal, get_args

from quadric.model import (
    Autoencoder,
    BatchTopKAutoencoder,
    BilinearArchitecture,
    BilinearAutoencoder,
    LinearArchitecture,
    TopKAutoencoder,
)
from quadric.model.bilinear import Initialization, default_hidden
from quadric.model.checks import check_choice, check_positive, check_seed, check_weight
from quadric.model.fast.products import GradientDtype
from quadric.model.lens import AffineLens, Lens, LensKind
from quadric.model.mixing import Prior, check_density

Kind = Literal["bilinear", "topk", "batch_topk"]


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig:
    """One autoencoder to train; the defaults are the paper's.

    Example:
        >>> from quadric.train import AutoencoderConfig
        >>> config = AutoencoderConfig(hook_point="resid_pre.15", prior="atomic", n_latents=1024)
        >>> config.name
        'resid_pre.15-atomic-k1024-alpha0.3-seed0'
        >>> config.build(64).n_hidden
        1024
    """

    hook_point: str
    """Canonical name of the hook point whose activations it is trained on."""
    kind: Kind = "bilinear"
    """Bilinear, or one of the linear baselines."""
    n_latents: int = 8192
    """Size of the dictionary."""
    n_hidden: int | None = None
    """Number of atoms; by default two per latent, or one if the prior is atomic."""
    prior: Prior = "composite"
    """Constraint on C, which mixes atoms into latents."""
    mixing_density: float = 0.001
    """Share of C that a composite autoencoder keeps at the end of training."""
    initial_density: float = 1.0
    """Share of C that a composite autoencoder starts with: all of it in the paper; less trains faster."""
    alpha: float = 0.3
    """Weight of the density penalty; linear baselines, which are sparse by construction, train without it."""
    n_active: int = 32
    """Latents that fire per token, in the linear baselines."""
    symmetric: bool = True
    """Measure the error with the symmetric kernel rather than the printed one."""
    tied: bool = False
    """L = R."""
    init: Initialization = "orthogonal"
    """Initialization of L, R and C."""
    seed: int = 0
    """Seed of the initial weights."""
    lens: LensKind = "paper"
    """Coordinates of the forms: the token itself (paper), or the centred token beside a constant (affine)."""
    overlap_penalty: float = 0.0
    """Weight of Σ_{i≠j} cos²(W_i, W_j)/k, which keeps several latents from learning the same form."""
    top_latents: int | None = None
    """How many latents the training error reconstructs each token from, the strongest; None for all of them,
    as in the paper."""
    mean_penalty: float = 0.0
    """Weight of the error of all latents together on the mean of each batch: latents that are not among a token's
    strongest may otherwise add up to a constant, which grows with their number."""
    gradient_dtype: GradientDtype = "auto"
    """Number type of the products that give the gradients of L, R and dense C: bfloat16 is faster on hardware that has
    it, and rounds gradients, never the error. auto is bfloat16 on CUDA devices, and float32 elsewhere. Unless auto
    chose it, Muon runs its rounds on a dense C in bfloat16 too."""

    def __post_init__(self) -> None:
        check_density(self.mixing_density)
        check_seed(self.seed)
        check_weight("alpha", self.alpha, "the paper uses 0.3")
        check_weight("overlap_penalty", self.overlap_penalty, "the paper uses none: 0")
        check_weight("mean_penalty", self.mean_penalty, "the paper uses none: 0")
        if self.top_latents is not None:
            check_positive("top_latents", self.top_latents)
        self._check_gradient_dtype()
        self._check_initial_density()
        self._check_sizes()

    def _check_gradient_dtype(self) -> None:
        check_choice("gradient_dtype", self.gradient_dtype, get_args(GradientDtype))
        if self.gradient_dtype != "auto" and self.kind != "bilinear":
            raise ValueError(f"gradient_dtype={self.gradient_dtype!r} has no meaning for the {self.kind}; leave it out")

    def _check_initial_density(self) -> None:
        check_density(self.initial_density, "initial density", "the paper starts with all entries, 1")
        if self.initial_density == 1:
            return
        if self.kind != "bilinear" or self.prior != "composite":
            other = self.kind if self.kind != "bilinear" else f"{self.prior} prior"
            raise ValueError(
                f"initial_density={self.initial_density:g} has no meaning for the {other}; leave it out, or choose "
                "prior='composite'"
            )
        if self.initial_density < self.mixing_density:
            raise ValueError(
                f"initial_density={self.initial_density:g} is below mixing_density={self.mixing_density:g}, which C "
                f"keeps at the end; give at least {self.mixing_density:g}"
            )

    def _check_sizes(self) -> None:
        """Raise ValueError for impossible sizes before any text is read."""
        if self.kind != "bilinear":
            LinearArchitecture(d_model=1, n_latents=self.n_latents, n_active=self.n_active, seed=self.seed)
            return
        BilinearArchitecture(
            d_model=1,
            n_latents=self.n_latents,
            n_hidden=default_hidden(self.n_latents, self.prior) if self.n_hidden is None else self.n_hidden,
            prior=self.prior,
            mixing_density=self.mixing_density if self.prior == "composite" else None,
            symmetric=self.symmetric,
            tied=self.tied,
            init=self.init,
            seed=self.seed,
            lens=self.lens,
        )

    @property
    def name(self) -> str:
        """Distinguishes the autoencoders of a run; also the name of the folder of this one."""
        if self.kind != "bilinear":
            return f"{self.hook_point}-{self.kind}-k{self.n_latents}-active{self.n_active}-seed{self.seed}"
        variant = "".join(
            [
                "-affine" * (self.lens == "affine"),
                "-printed" * (not self.symmetric),
                "-tied" * self.tied,
                "-xavier" * (self.init == "xavier"),
            ]
        )
        hidden = "" if self.n_hidden is None else f"-h{self.n_hidden}"
        density = f"-density{self.mixing_density:g}" if self.prior == "composite" else ""
        density += f"-from{self.initial_density:g}" if self.initial_density != 1 else ""
        sizes = f"k{self.n_latents}{hidden}{density}"
        overlap = f"-overlap{self.overlap_penalty:g}" if self.overlap_penalty else ""
        top = "" if self.top_latents is None else f"-top{self.top_latents}"
        mean = f"-mean{self.mean_penalty:g}" if self.mean_penalty else ""
        dtype = "" if self.gradient_dtype == "auto" else f"-gradients-{self.gradient_dtype}"
        penalties = f"alpha{self.alpha:g}{overlap}"
        return f"{self.hook_point}-{self.prior}{variant}-{sizes}-{penalties}{top}{mean}{dtype}-seed{self.seed}"

    def build(self, d_model: int, lens: Lens | None = None) -> Autoencoder:
        """The untrained autoencoder; a composite one has `initial_density` of C.

        An affine lens must be estimated from tokens and given, unless weights are restored into the autoencoder.
        """
        if self.kind != "bilinear":
            linear = TopKAutoencoder if self.kind == "topk" else BatchTopKAutoencoder
            return linear(d_model=d_model, n_latents=self.n_latents, n_active=self.n_active, seed=self.seed)
        return BilinearAutoencoder(
            d_model=d_model,
            n_latents=self.n_latents,
            n_hidden=self.n_hidden,
            prior=self.prior,
            mixing_density=self.initial_density if self.prior == "composite" else None,
            symmetric=self.symmetric,
            tied=self.tied,
            init=self.init,
            seed=self.seed,
            lens=AffineLens.unknown(d_model) if lens is None and self.lens == "affine" else lens,
        )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the autoencoders of a run are trained; the defaults are the paper's.

    Example:
        >>> from quadric.train import TrainingConfig
        >>> TrainingConfig(steps=500, alpha_warmup_steps=100).learning_rate
        0.03
    """

    steps: int = 2048
    """Batches to train on."""
    alpha_warmup_steps: int = 256
    """Steps over which alpha rises linearly from 0."""
    learning_rate: float = 0.03
    """Learning rate of Muon; too large by default if C starts sparse with over 400 atoms per coordinate."""
    learning_rate_decay: float = 0.0
    """Share of the steps, the last ones, over which all learning rates fall linearly to 0; none in the paper, whose
    learning rate is constant."""
    momentum: float = 0.95
    """Momentum of Muon."""
    checkpoint_every: int = 256
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Checkpoints to keep; older ones are deleted."""

    def __post_init__(self) -> None:
        for name in ("steps", "checkpoint_every", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not positive; give at least 1")
        if not 0 <= self.alpha_warmup_steps <= self.steps:
            raise ValueError(
                f"alpha_warmup_steps={self.alpha_warmup_steps} exceeds steps={self.steps}; shorten the warm-up"
            )
        if not self.learning_rate > 0 or not 0 <= self.momentum < 1:
            raise ValueError(
                f"learning_rate={self.learning_rate} must exceed 0 and momentum={self.momentum} lie in [0, 1); "
                "the paper uses 0.03 and 0.95"
            )
        if not 0 <= self.learning_rate_decay <= 1:
            raise ValueError(
                f"learning_rate_decay={self.learning_rate_decay} is outside [0, 1]; it is the share of the steps over "
                "which the learning rate falls to 0, and 0 for a constant one"
            )
