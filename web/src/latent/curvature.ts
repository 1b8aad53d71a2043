// How much of a latent no direction explains, in a word and a number.
import type { Latent, Unit } from "../data/site.ts";
import { percent } from "../ui/format.ts";

type Curved = Pick<Latent, "curvature" | "measuredCurvature" | "isLinear">;

const DIRECTION = "A direction of a linear dictionary: its level sets are planes, and it has no curvature.";

/** The larger of the two shares of z's variance: what a linear function explains, or what it does not. */
export function curvatureName({ measuredCurvature: curved, isLinear }: Curved): string {
  if (isLinear) return "linear";
  return curved >= 0.5 ? `curved ${percent(curved)}` : `linear ${percent(1 - curved)}`;
}

/** The same where nothing was measured. */
export function explainWeights({ curvature, isLinear }: Curved): string {
  if (isLinear) return DIRECTION;
  return `From the weights alone, no linear function would explain ${percent(curvature)} of z's variance. At 0 % the latent is a direction.`;
}

export function explainCurvature({ curvature, measuredCurvature, isLinear }: Curved, unit: Unit): string {
  if (isLinear)
    return `${DIRECTION} No linear function explains ${percent(measuredCurvature)} of z's variance over all scored ${unit}s: that is its gate, which sets z to 0 where it is not among the strongest.`;
  return (
    `Measured on all scored ${unit}s, ${percent(measuredCurvature)} of z's variance is explained by no linear function; ` +
    `from the weights alone, as if ${unit}s were Gaussian, ${percent(curvature)}. At 0 % the latent is a direction.`
  );
}
