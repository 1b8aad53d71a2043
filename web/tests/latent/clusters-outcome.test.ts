import assert from "node:assert/strict";
import { test } from "node:test";
import { outcome } from "../../src/latent/clusters-outcome.ts";

const CLUSTER = { name: "a", n_points: 5, stability: 0.9 };

test("a search says what it found, and why there is nothing", () => {
  const found = { clusters: [CLUSTER, CLUSTER, CLUSTER], n_stable: 3, n_unstable: 1, n_control: 0 };
  assert.match(outcome(found, "token"), /Groups of tokens.*controls have no stable group\. 1 further group did not/);
  assert.match(outcome({ ...found, n_unstable: 0, n_control: 2 }, "row"), /Groups of rows.*at most 2 stable groups\.$/);
  assert.match(outcome({ clusters: [], n_stable: 0, n_unstable: 4, n_control: 0 }, "token"), /no group of tokens survives/);
  assert.match(outcome({ clusters: [], n_stable: 3, n_unstable: 0, n_control: 4 }, "token"), /3 stable groups, but a control/);
  assert.match(outcome({ clusters: [], n_stable: 2, n_unstable: 0, n_control: 0 }, "token"), /drawn alone can make that many/);
});
