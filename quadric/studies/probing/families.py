"""Families of features: what a probe may look at. Each gives some numbers for every unit token u; latents of a
dictionary that reads activations at their own length are those of the activation.

| family         | feature                                                                            |
|----------------|------------------------------------------------------------------------------------|
| latents        | z of a dictionary, bilinear or linear                                              |
| linear part    | c·bᵀv of every bilinear latent: what is left of it without its quadratic part      |
| quadratic part | vᵀQv of every bilinear latent: what is left of it without its linear part          |
| random         | z of a newly initialized dictionary of the same architecture, with the same centre |
| raw            | u itself                                                                           |
| pca            | scores of the (at most 100) leading principal components of the training tokens    |
| degree 2       | the 20 leading scores and all their products: quadratic features of no dictionary  |

v = u − μ is the token about the centre. An affine lens has its own; for a raw dictionary μ is the mean of the tokens of
the training rows (see `quadric/geometry/centring.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from quadric.geometry.centring import Centring, centred_factors, centring_of
from quadric.geometry.comparison import NULL_SEED
from quadric.geometry.dictionary import require_forms
from quadric.geometry.similarity import randomly_initialized
from quadric.model import Dictionary, TopK
from quadric.model.devices import device_of, exact_device
from quadric.model.forms import Directions, Forms
from quadric.model.lens import AffineLens

TOKENS_AT_ONCE = 2048
MOST_SCORES = 100
SMALLEST_SHARE = 1e-4
"""Of the variance; the scores of smaller components are noise that standardizing would blow up."""
DEGREE_TWO_SCORES = 20
LATENTS, LINEAR_PART, QUADRATIC_PART, RANDOM = "latents", "linear part", "quadratic part", "random"
RAW, PCA, DEGREE_TWO = "raw", "pca", "degree 2"

Features = Callable[[Float[Tensor, "t d"], Bool[Tensor, " t"]], Float[Tensor, "t f"]]
"""Tokens, and which of them belong to training rows, to features."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Features of one kind."""

    name: str
    dictionary: str = ""
    """Name of the dictionary that it belongs to; empty for features of the activations alone."""
    features: Features
    is_fitted: bool
    """Whether the features depend on the training rows, so that every split has its own."""
    at_own_length: bool = False
    """Whether the features are those of activations at their own length, not of unit tokens."""

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.dictionary}: {self.name}" if self.dictionary else self.name


def families_of(autoencoders: Mapping[str, Dictionary], seed: int = NULL_SEED) -> list[Family]:
    """All families that some dictionaries give, and those of the activations alone."""
    found = [family for name, each in autoencoders.items() for family in _of_dictionary(name, each, seed)]
    plain = [(RAW, _unchanged, False), (PCA, _scores, True), (DEGREE_TWO, _degree_two, True)]
    return found + [Family(name=name, features=features, is_fitted=fitted) for name, features, fitted in plain]


def _of_dictionary(name: str, autoencoder: Dictionary, seed: int) -> list[Family]:
    made = [_latent_family(LATENTS, name, autoencoder)]
    if isinstance(autoencoder.forms(), Forms):
        about_rows = not isinstance(autoencoder.lens, AffineLens)
        for part, features in ((LINEAR_PART, linear_parts), (QUADRATIC_PART, quadratic_parts)):
            own = _of_part(autoencoder, features)
            made.append(Family(name=part, dictionary=name, features=own, is_fitted=about_rows))
    if (chance := random_like(autoencoder, seed)) is not None:
        made.append(_latent_family(RANDOM, name, chance))
    return made


def _latent_family(kind: str, name: str, autoencoder: Dictionary) -> Family:
    return Family(
        name=kind,
        dictionary=name,
        features=latents_of(autoencoder),
        is_fitted=False,
        at_own_length=not autoencoder.reads_unit_tokens,
    )


def random_like(autoencoder: Dictionary, seed: int) -> Dictionary | None:
    """An untrained dictionary of the same size about the same centre; None for a linear one of unknown sparsity.

    A random BatchTopK has no threshold, so a random TopK with as many active latents stands for it.
    """
    directions = autoencoder.forms()
    if not isinstance(directions, Directions):
        return randomly_initialized(autoencoder, seed)
    if directions.n_active is None:
        return None
    settings = TopK(
        n_latents=autoencoder.n_latents,
        n_active=directions.n_active,
        input=directions.input,
        subtract_decoder_bias=directions.subtracts_bias,
    )
    made = settings.build(autoencoder.d_model, seed=seed)
    tensors = made.tensors() | {"decoder_bias": directions.bias.detach().cpu().clone()}
    restored = settings.restore(made.d_model, {name: t.detach() for name, t in tensors.items()}, seed=seed)
    return restored.to(device_of(autoencoder))


@torch.no_grad()
def latents_of(autoencoder: Dictionary) -> Features:
    """z of every token."""
    autoencoder.eval()
    device = next(autoencoder.parameters()).device

    def features(tokens: Tensor, is_train: Tensor) -> Tensor:
        with torch.no_grad():
            parts = torch.split(tokens.to(device), TOKENS_AT_ONCE)
            return torch.cat([autoencoder.encode(autoencoder.prepare(part)).float().cpu() for part in parts])

    return features


def _of_part(autoencoder: Dictionary, part: Callable[[Dictionary, Centring, Tensor], Tensor]) -> Features:
    def features(tokens: Tensor, is_train: Tensor) -> Tensor:
        centring = centring_of(autoencoder, tokens[is_train].double().mean(0))
        blocks = torch.split(tokens.double(), TOKENS_AT_ONCE)
        place = exact_device(device_of(autoencoder))
        return torch.cat([part(autoencoder, centring, block.to(place)).float().cpu() for block in blocks])

    return features


@torch.no_grad()
def linear_parts(autoencoder: Dictionary, centring: Centring, unit: Float[Tensor, "t d"]) -> Float[Tensor, "t k"]:
    """c·bᵀv of every latent: with factors [l_v; l_c] about the centre, b = Σ_j C_ij (r_c l_v + l_c r_v)."""
    left, right = (each.to(unit) for each in centred_factors(autoencoder, centring))
    v = centring.coordinates(unit)
    atoms = (v @ left[:, :-1].mT) * right[:, -1] + (v @ right[:, :-1].mT) * left[:, -1]
    return centring.scale * require_forms(autoencoder).mixing.mix(atoms)


@torch.no_grad()
def quadratic_parts(autoencoder: Dictionary, centring: Centring, unit: Float[Tensor, "t d"]) -> Float[Tensor, "t k"]:
    """vᵀQv of every latent."""
    left, right = (each.to(unit) for each in centred_factors(autoencoder, centring))
    v = centring.coordinates(unit)
    return require_forms(autoencoder).mixing.mix((v @ left[:, :-1].mT) * (v @ right[:, :-1].mT))


def _unchanged(tokens: Tensor, is_train: Tensor) -> Tensor:
    return tokens


def _scores(tokens: Tensor, is_train: Tensor) -> Tensor:
    return principal_scores(tokens, is_train, MOST_SCORES)


def principal_scores(tokens: Float[Tensor, "t d"], is_train: Bool[Tensor, " t"], count: int) -> Float[Tensor, "t c"]:
    """Scores of at most so many leading principal components, which the training tokens alone decide."""
    from sklearn import decomposition

    training = tokens[is_train].double().numpy()
    fitted = decomposition.PCA(min(count, *training.shape), svd_solver="covariance_eigh").fit(training)
    kept = fitted.explained_variance_ratio_ > SMALLEST_SHARE
    return torch.from_numpy(fitted.transform(tokens.double().numpy())[:, kept])


def _degree_two(tokens: Tensor, is_train: Tensor) -> Tensor:
    from sklearn.preprocessing import PolynomialFeatures

    scores = principal_scores(tokens, is_train, DEGREE_TWO_SCORES)
    return torch.from_numpy(PolynomialFeatures(degree=2, include_bias=False).fit_transform(scores.numpy()))
