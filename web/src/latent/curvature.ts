// How much of a latent no direction explains, in a word and a number.
import type { Latent, Unit } from "../data/site.ts";
import { percent } from "../ui/format.ts";

type Curved = Pick<Latent, "curvature" | "measuredCurvature">;

/** The larger of the two shares of z's variance: what a linear function explains, or what it does not. */
export function curvatureName({ measuredCurvature: curved }: Curved): string {
  return curved >= 0.5 ? `curved ${percent(curved)}` : `linear ${percent(1 - curved)}`;
}

/** The same where nothing was measured. */
export function explainWeights({ curvature }: Curved): string {
  return `From the weights alone, no linear function would explain ${percent(curvature)} of z's variance. At 0 % the latent is a direction.`;
}

export function explainCurvature({ curvature, measuredCurvature }: Curved, unit: Unit): string {
  return (
    `Measured on all scored ${unit}s, ${percent(measuredCurvature)} of z's variance is explained by no linear function; ` +
    `from the weights alone, as if ${unit}s were Gaussian, ${percent(curvature)}. At 0 % the latent is a direction.`
  );
}
