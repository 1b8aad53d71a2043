// Mirrors quadric/viewer/schema.py, which documents the format; tests/viewer/test_schema.py compares the two.

export const FORMAT = "quadric-site";
export const SCHEMA_VERSION = 2;
export const SHARD_TOKENS = 65536;
export const FINE_AXES = 3;
export const MOST_EIGENVALUES = 64;
export const CONTEXT_REACH = 4;
export const MOST_CLUSTERS = 254;
export const TOKENS_PER_LATENT = 32;
export const SHAPES = [
  "empty",
  "constant",
  "half-space",
  "slab",
  "ellipsoid",
  "hyperboloid",
  "elliptic paraboloid",
  "hyperbolic paraboloid",
] as const;
export const EIGENVECTOR = 0;
export const LINEAR_DIRECTION = 1;
export const READING_DIRECTION = 2;
export const PRINCIPAL_COMPONENT = 3;
export const NO_AXIS = -1;
export const UNITS = ["token", "row"] as const;
export const NOTHING = -1;

export interface Provenance {
  model: string | null;
  model_revision: string | null;
  model_dtype: string | null;
  hook_point: string | null;
  tokenizer_fingerprint: string | null;
  corpus: string | null;
  corpus_revision: string | null;
  corpus_settings: Record<string, unknown> | null;
  split: string | null;
  packing: string | null;
  block_length: number | null;
  normalisation: string;
  token_rules: Record<string, unknown> | null;
}

export interface Sampling {
  n_tokens: number;
  n_points: number;
  weight_exponent: number;
  epsilon: number;
  seed: number;
  firing_threshold: string;
  positive_share: string;
  quantile_probabilities: number[];
  control_seed: number | null;
  linear_control: string;
}

export interface Quality {
  error: number | null;
  density: number | null;
  cross_entropy_recovered: number | null;
  n_tokens: number | null;
  error_constant: number | null;
  error_linear: number | null;
  error_quadratic: number | null;
  floor: number | null;
  dense_share: number | null;
  n_empty: number | null;
  n_copies: number | null;
  n_distinct: number | null;
}

export interface LabelMethods {
  offline: string;
  written: string | null;
  scored: string | null;
}

export interface PatternControl {
  name: string;
  n_shown: number;
  n_tested: number;
  is_own: boolean;
  is_exceeded: boolean;
}

export interface PatternKind {
  name: string;
  meaning: string;
  statistic: string;
  chance: string;
  n_shown: number;
  n_tested: number;
  controls: PatternControl[];
  best: number[];
}

export interface PatternSearch {
  method: string;
  kinds: PatternKind[];
}

export interface DictionaryEntry {
  name: string;
  prior: string;
  d_model: number;
  n_hidden: number;
  n_latents: number;
  n_axes: number;
  is_linear: boolean;
  lens: string;
  centre_norm: number;
  ranking: string;
  mixing_density: number | null;
  source: string | null;
  source_autoencoder: string | null;
  text: string;
  umap: string | null;
  clusters: string | null;
  patterns: PatternSearch | null;
  provenance: Provenance;
  sampling: Sampling;
  quality: Quality;
  labels: LabelMethods;
}

export interface TextEntry {
  name: string;
  n_tokens: number;
  n_sequences: number;
  n_shards: number;
  vocabulary_size: number;
  unit: string;
  attribution: string | null;
}

export interface ComparisonEntry {
  first: string;
  second: string;
  frobenius: number;
  alignment: number;
  smallest_overlap: number;
  chance: number;
  method: string;
}

export interface SiteManifest {
  format: string;
  schema_version: number;
  package_version: string;
  title: string;
  texts: TextEntry[];
  dictionaries: DictionaryEntry[];
  comparisons: ComparisonEntry[];
}

export interface LabelScore {
  detection: number;
  fuzzing: number | null;
  n_contexts: number;
}

export interface LatentLabel {
  text: string;
  positive: string;
  negative: string;
  written: string | null;
  score: LabelScore | null;
  written_score: LabelScore | null;
}

export interface Cluster {
  name: string;
  n_points: number;
  stability: number;
}

export interface LatentClusters {
  clusters: Cluster[];
  n_stable: number;
  n_unstable: number;
  n_control: number;
}

export interface LatentPattern {
  name: string;
  statistic: number | null;
  p_value: number | null;
  shown: boolean;
  tokens: string[];
}

// index.st: one tensor per column; the last two may be missing.
export const COLUMNS = [
  "importance",
  "effective_rank",
  "captured",
  "support",
  "density",
  "shape",
  "positive_share",
  "firing_share",
  "mean_square",
  "curvature",
  "measured_curvature",
  "copy_of",
  "worth",
  "umap_x",
  "umap_y",
] as const;
export type Column = (typeof COLUMNS)[number];

// latents/NNNNN.st
export const LATENT_TENSORS = [
  "latent",
  "eigenvalues",
  "rank",
  "total_weight",
  "axis_quadratic",
  "axis_linear",
  "axis_kind",
  "constant",
  "rest",
  "curvature",
  "measured_curvature",
  "places",
  "tokens",
  "values",
  "value_scale",
  "coordinates_fine",
  "coordinates_coarse",
  "coordinate_scales",
  "control",
  "control_scales",
  "linear",
  "linear_scale",
  "clusters",
  "contexts",
  "context_tokens",
  "neighbours",
  "overlaps",
  "quantiles",
  "lift_tokens",
  "lifts",
] as const;
