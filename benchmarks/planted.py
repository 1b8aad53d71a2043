"""Synthetic activations with known geometry: manifolds planted in superposition, and whether one latent recovers them.

With U (d×r) the latent's r leading eigenvectors and B (d×r) a basis of the subspace, both orthonormal, the cosines of
the principal angles are the singular values of UᵀB, and

    overlap = ‖UᵀB‖_F² / r = mean cos²θ

is 1 only if the subspaces coincide. A latent of lower rank has fewer vectors: a single direction reaches 1/r at most.

Read about the mean token μ (see `quadric.geometry.quadrics`), a latent also has a linear part, and a quadric has a
centre. A circle lies in the leading eigenvectors of Q alone. A paraboloid's axis, or a direction, may be in the linear
part, so there U holds the directions along which z varies most: the leading eigenvectors of

    E ∇z∇zᵀ = 4σ²Q² + c²bbᵀ    for tokens with variance σ² in every direction.

The centre in unit tokens is μ − (c/2)Q⁺b, with Q⁺ from the leading eigenpairs, one per curved dimension.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from quadric.geometry.quadrics import AffineForm

PLANTING = 0x51AD
"""Mixed into the seed of the manifolds, so that they do not repeat another random draw with the same seed."""
CONE_SLOPE = 0.5
"""Radius of a cone at height 1."""
CLUSTERS = 5
JITTER = 0.08
"""Standard deviation of a cluster's points around its centre."""
PARABOLOID_AXIS = 2
"""Column of a paraboloid's basis along which it opens; the other two span the curved part."""


class PlantedManifold(NamedTuple):
    """A shape in a random subspace.

    Cones, clusters and paraboloids aside, it is a unit sphere: an antipodal pair in dimension 1, a circle in 2, a
    sphere in 3.
    """

    name: str
    basis: Float[Tensor, "d r"]
    centres: Float[Tensor, "c r"] | None = None
    """Cluster centres in the coordinates of the subspace; None for other kinds."""
    shift: Float[Tensor, " d"] | None = None
    """Centre of a shifted circle or sphere in token space; None for the other kinds, whose centre is the origin."""

    @property
    def kind(self) -> str:
        """direction, circle, sphere, cone, cluster, shifted circle, shifted sphere or paraboloid."""
        return self.name.rpartition(" ")[0]

    @property
    def curved(self) -> Float[Tensor, "d q"]:
        """Basis of the dimensions that need a quadratic form: all of them, except the axis of a paraboloid."""
        return self.basis[:, :PARABOLOID_AXIS] if self.kind == "paraboloid" else self.basis

    def points(self, n: int, generator: torch.Generator) -> Float[Tensor, "n r"]:
        """Random points on the manifold, in the coordinates of its subspace about its centre."""
        points = torch.randn(n, self.basis.shape[1], generator=generator)
        if self.centres is not None:
            nearest = torch.randint(len(self.centres), (n,), generator=generator)
            return self.centres[nearest] + JITTER * points
        if self.kind == "cone":  # apex at the origin, heights between ½ and 3/2 so that no token vanishes
            around = CONE_SLOPE * on_sphere(points[:, :2])
            height = 0.5 + torch.rand(n, 1, generator=generator)
            return height * torch.cat([around, torch.ones(n, 1)], dim=1)
        if self.kind == "paraboloid":  # uniform over a disc; the height 2ρ² − 1 has mean zero
            squared_radius = torch.rand(n, 1, generator=generator)
            return torch.cat([squared_radius.sqrt() * on_sphere(points[:, :2]), 2 * squared_radius - 1], dim=1)
        return on_sphere(points)

    def embed(self, points: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """Points of the subspace as vectors of token space."""
        embedded = points @ self.basis.mT
        return embedded if self.shift is None else embedded + self.shift


def on_sphere(points: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
    """Scale every point to unit norm; zero, which a normal draw in one dimension can give, is mapped to a pole."""
    norms: Tensor = torch.linalg.vector_norm(points, dim=-1, keepdim=True)
    pole = torch.eye(points.shape[1])[0]
    return torch.where(norms > 0, points / norms, pole)


@dataclass(frozen=True, kw_only=True)
class PlantedConfig:
    """How many manifolds of each kind, and how they mix into tokens."""

    d_model: int = 32
    """Width of the token vectors."""
    n_directions: int = 6
    """Antipodal pairs ±v."""
    n_circles: int = 4
    """Circles."""
    n_spheres: int = 2
    """Spheres."""
    n_cones: int = 0
    """Circular cones in three dimensions."""
    n_clusters: int = 0
    """Sets of five points on a sphere, slightly blurred: categories without an order."""
    n_shifted_circles: int = 0
    """Circles whose centre is not the origin: inside their plane for even ones, perpendicular to it for odd ones."""
    n_shifted_spheres: int = 0
    """Spheres whose centre is not the origin, likewise."""
    n_paraboloids: int = 0
    """Circular paraboloids in three dimensions."""
    n_active: int = 2
    """Number of manifolds that each token is a sum of."""
    noise: float = 0.05
    """Standard deviation of the isotropic noise, relative to a manifold of unit radius."""
    shift: float = 0.7
    """Distance of a shifted centre from the origin, relative to the radius."""
    offset: float = 0.0
    """Length of a vector that all tokens have in common. For three active manifolds, about 2 gives the mean unit token
    the norm 0.72 that it has in SmolLM2."""

    @property
    def common(self) -> Float[Tensor, " d"]:
        """The vector that all tokens have in common; along the diagonal, since the subspaces are random anyway."""
        return torch.full((self.d_model,), self.offset / self.d_model**0.5)


def plant(config: PlantedConfig, seed: int) -> list[PlantedManifold]:
    """Manifolds in independent random subspaces, which must overlap if their dimensions add up to more than d."""
    # Not the plain seed: an autoencoder initialized with the same seed would start with some of these directions.
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, PLANTING]).generate_state(1)[0]))
    kinds = [
        ("direction", 1, config.n_directions),
        ("circle", 2, config.n_circles),
        ("sphere", 3, config.n_spheres),
        ("cone", 3, config.n_cones),
        ("cluster", 3, config.n_clusters),
        # New kinds go last: a draw must not depend on kinds that are not planted.
        ("shifted circle", 2, config.n_shifted_circles),
        ("shifted sphere", 3, config.n_shifted_spheres),
        ("paraboloid", 3, config.n_paraboloids),
    ]
    return [_planted(f"{kind} {i}", config, rank, generator) for kind, rank, count in kinds for i in range(count)]


def _planted(name: str, config: PlantedConfig, rank: int, generator: torch.Generator) -> PlantedManifold:
    basis = torch.linalg.qr(torch.randn(config.d_model, rank, generator=generator)).Q
    if name.startswith("cluster"):
        centres = torch.randn(CLUSTERS, rank, generator=generator)
        return PlantedManifold(name, basis, centres / torch.linalg.vector_norm(centres, dim=-1, keepdim=True))
    if name.startswith("shifted"):
        direction = torch.randn(config.d_model, generator=generator)
        inside = basis @ (basis.mT @ direction)
        towards = inside if int(name.split()[-1]) % 2 == 0 else direction - inside
        return PlantedManifold(name, basis, shift=config.shift * on_sphere(towards[None])[0])
    return PlantedManifold(name, basis)


@dataclass(frozen=True)
class PlantedBatch:
    """Tokens at the hook point `planted`; each batch is one document."""

    activations: dict[str, Float[Tensor, "n d"]]
    documents: Int[Tensor, " n"]


class Mixture(NamedTuple):
    """Tokens with the points that they are sums of."""

    tokens: Float[Tensor, "n d"]
    active: Bool[Tensor, "n m"]
    """Which manifolds each token contains."""
    points: list[Tensor]
    """Of every manifold, a point for each token, in the coordinates of its subspace; used only where it is active."""


class PlantedCentre(NamedTuple):
    """Where a manifold lies among unit tokens."""

    centre: Float[Tensor, " r"]
    """Its centre in the coordinates of its subspace; the apex of a cone."""
    radius: float
    """Length of a unit of its coordinates."""


class PlantedStream:
    """An endless stream of tokens, each the sum of points on `n_active` different manifolds, plus noise.

    Batch i depends only on the seed and on i, so the cursor is a single number.
    """

    hook_point = "planted"

    def __init__(self, manifolds: list[PlantedManifold], config: PlantedConfig, n_tokens: int, seed: int) -> None:
        if config.n_active > len(manifolds):
            raise ValueError(
                f"n_active={config.n_active} exceeds the {len(manifolds)} manifolds; plant more or lower it"
            )
        self.manifolds, self.config = manifolds, config
        self.n_tokens, self.seed = n_tokens, seed
        self.d_model = config.d_model
        self._next = 0

    def __iter__(self) -> Iterator[PlantedBatch]:
        while True:
            index, self._next = self._next, self._next + 1
            yield PlantedBatch({self.hook_point: self.tokens(index)}, torch.full((self.n_tokens,), index))

    def tokens(self, index: int) -> Float[Tensor, "n d"]:
        """The tokens of one batch."""
        return self.mixture(index).tokens

    def mixture(self, index: int) -> Mixture:
        """The tokens of one batch, with what they are made of."""
        mixed = int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])
        generator = torch.Generator().manual_seed(mixed)
        order = torch.rand(self.n_tokens, len(self.manifolds), generator=generator).argsort(-1)
        active = order < self.config.n_active
        tokens = self.config.noise * torch.randn(self.n_tokens, self.d_model, generator=generator)
        points = []
        for i, manifold in enumerate(self.manifolds):
            points.append(manifold.points(self.n_tokens, generator))
            tokens += active[:, i, None] * manifold.embed(points[i])
        return Mixture(tokens + self.config.common, active, points)

    def state_dict(self) -> dict[str, Any]:
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._next = state["next"]


def planted_centres(manifolds: list[PlantedManifold], mixture: Mixture) -> list[PlantedCentre]:
    """Centre and radius of every manifold among unit tokens, averaged over the tokens that contain it.

    A token x = rest + Bp with norm ‖x‖ has the point p of the manifold at (Bᵀrest + p)/‖x‖ in its subspace. The rest
    is the common offset, the manifold's own shift and the other manifolds that are active.
    """
    scales = 1 / torch.linalg.vector_norm(mixture.tokens, dim=-1)
    found = []
    for i, manifold in enumerate(manifolds):
        there = mixture.active[:, i]
        rest = mixture.tokens[there] @ manifold.basis - mixture.points[i][there]
        found.append(PlantedCentre((scales[there, None] * rest).mean(0), scales[there].mean().item()))
    return found


class Match(NamedTuple):
    """The latent assigned to a subspace, and how close it comes."""

    latent: int
    overlap: float
    """Mean cos² of the principal angles."""
    angle: float
    """The largest principal angle, in degrees; 90 where the latent has too few eigenvectors."""


def unit_directions(vectors: Float[Tensor, "k d"]) -> Float[Tensor, "k d 1"]:
    """Single directions, as one-dimensional subspaces; an empty one stays empty."""
    norms = torch.linalg.vector_norm(vectors.double(), dim=-1, keepdim=True)
    return (vectors.double() / torch.where(norms > 0, norms, 1))[..., None]


def overlaps(latents: Float[Tensor, "k d s"], subspace: Float[Tensor, "d r"]) -> Float[Tensor, " k"]:
    """‖U_iᵀB‖_F² / r of every latent, for its leading r vectors."""
    r = subspace.shape[1]
    return (latents[..., :r].mT @ subspace.to(latents)).square().sum((1, 2)) / r


def largest_angle(vectors: Float[Tensor, "d s"], subspace: Float[Tensor, "d r"]) -> float:
    """The largest principal angle between the leading r vectors and the subspace, in degrees."""
    r = subspace.shape[1]
    if vectors.shape[1] < r:
        return 90.0
    cosines = torch.linalg.svdvals(vectors[:, :r].mT @ subspace.to(vectors))
    return math.degrees(math.acos(min(1.0, cosines.min().item())))


def match_subspaces(latents: Float[Tensor, "k d s"], subspaces: list[Tensor]) -> list[Match]:
    """One latent per subspace, none used twice, that maximize the sum of overlaps."""
    scores = torch.stack([overlaps(latents, subspace) for subspace in subspaces])
    return [
        Match(latent, scores[row, latent].item(), largest_angle(latents[latent], subspaces[row]))
        for row, latent in enumerate(_assigned(scores))
    ]


def _assigned(scores: Float[Tensor, "m k"]) -> list[int]:
    """A different column for every row, with the largest sum of scores."""
    from scipy.optimize import linear_sum_assignment  # imported here: the import takes longer than most reports

    if len(scores) > scores.shape[1]:
        raise ValueError(f"{len(scores)} subspaces exceed {scores.shape[1]} latents; none could be used twice")
    columns: list[int] = linear_sum_assignment(scores.numpy(), maximize=True)[1].tolist()
    return columns


def best_span(directions: Float[Tensor, "k d 1"], subspace: Float[Tensor, "d r"]) -> Float[Tensor, "d r"]:
    """The span of the r single directions that lie most inside the subspace, made orthonormal."""
    r = subspace.shape[1]
    chosen = overlaps(directions, subspace).topk(r).indices
    basis: Tensor = torch.linalg.qr(directions[chosen, :, 0].mT).Q
    return basis


class KnownManifold(NamedTuple):
    """What is to be recovered, in the coordinates of unit tokens."""

    subspace: Float[Tensor, "d r"]
    curved: Float[Tensor, "d q"]
    """The part of the subspace that needs a quadratic form."""
    has_linear: bool
    """Whether the linear part of a latent may span some of the subspace: a direction, or the axis of a paraboloid."""
    centre: Float[Tensor, " q"]
    """Centre in the coordinates of `curved`."""
    radius: float


class Recovery(NamedTuple):
    """The latent assigned to a manifold, and how close it comes."""

    latent: int
    overlap: float
    """Mean cos² of the principal angles between the latent's leading directions and the subspace."""
    angle: float
    """The largest principal angle, in degrees."""
    centre_distance: float
    """Distance of the quadric's centre from the manifold's within the subspace, in radii."""


def recover(
    forms: list[AffineForm], mean: Float[Tensor, " d"], manifolds: list[KnownManifold], variance: float
) -> list[Recovery]:
    """One latent per manifold, none used twice, that maximize the sum of overlaps.

    Args:
        forms: Every latent of a dictionary, read about the mean token.
        mean: The mean unit token μ.
        manifolds: What is to be recovered.
        variance: σ² of unit tokens about the mean, in one direction: (1 − ‖μ‖²)/d.

    Returns:
        The latent of each manifold, with its overlap, angle and the distance of its centre.
    """
    count = max(each.subspace.shape[1] for each in manifolds)
    readings = {has_linear: leading_directions(forms, count, variance if has_linear else None)
                for has_linear in (False, True)}  # fmt: skip
    scores = torch.stack([overlaps(readings[each.has_linear], each.subspace) for each in manifolds])
    found = []
    for row, latent in enumerate(_assigned(scores)):
        known = manifolds[row]
        angle = largest_angle(readings[known.has_linear][latent], known.subspace)
        distance = centre_distance(forms[latent], mean, known)
        found.append(Recovery(latent, scores[row, latent].item(), angle, distance))
    return found


def leading_directions(
    forms: list[AffineForm], count: int, variance: float | None = None
) -> Float[Tensor, "k d count"]:
    """Leading eigenvectors of Q by |λ|; given a variance σ², the leading eigenvectors of 4σ²Q² + c²bbᵀ instead."""
    if variance is None:
        there = torch.stack([(form.eigenvalues[:count] != 0).double() for form in forms])
        return torch.stack([form.eigenvectors[:, :count] for form in forms]) * there[:, None]
    gradients = []
    for form in forms:
        curved = form.eigenvectors * (2 * variance**0.5 * form.eigenvalues)
        gradients.append(curved @ curved.mT + form.scale**2 * form.linear.outer(form.linear))
    values, vectors = torch.linalg.eigh(torch.stack(gradients))
    there = (values > 1e-12 * values[:, -1:]).double()
    leading: Tensor = (vectors * there[:, None])[..., -count:].flip(-1)
    return leading


def quadric_centre(form: AffineForm, rank: int) -> Float[Tensor, " d"]:
    """v₀ = −(c/2)Q⁺b about the mean token, with Q⁺ from the leading eigenpairs."""
    values, vectors = form.eigenvalues[:rank], form.eigenvectors[:, :rank]
    inverse = torch.where(values == 0, 0, 1 / values)
    centre: Tensor = -form.scale / 2 * vectors @ (inverse * (vectors.mT @ form.linear))
    return centre


def centre_distance(form: AffineForm, mean: Float[Tensor, " d"], manifold: KnownManifold) -> float:
    """‖Aᵀ(μ + v₀) − centre‖ / radius, with A the basis of the manifold's curved dimensions."""
    curved = manifold.curved.double()
    own = curved.mT @ (mean.double() + quadric_centre(form, curved.shape[1]))
    return float(torch.linalg.vector_norm(own - manifold.centre.double())) / manifold.radius
