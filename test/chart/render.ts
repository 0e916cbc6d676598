import { join } from "node:path";
import { loadAllYaml } from "@kubernetes/client-node";
import type { V1Deployment } from "@kubernetes/client-node";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";

const CHART = join(import.meta.dirname, "../../deploy/chart");

export type Rendered = { kind: string; metadata: { name: string; namespace?: string } };

const REQUIRED = { "s3.endpointUrl": "https://s3.test" };

/** The chart with these values, by Helm itself. */
export async function render(values: object): Promise<Rendered[]> {
  const helm = join(await programs("helm"), "helm");
  const sets = Object.entries({ ...REQUIRED, ...values }).flatMap(([key, value]) => [
    "--set-json",
    `${key}=${JSON.stringify(value)}`,
  ]);
  const args = ["template", "s3csi", CHART, "--namespace", "kube-system", ...sets];
  return loadAllYaml(await run(helm, args)) as Rendered[];
}

/** Of the controller. */
export function containersIn(objects: readonly Rendered[]) {
  const deployment = objects.find(({ kind }) => kind === "Deployment") as unknown as V1Deployment;
  return deployment.spec?.template.spec?.containers ?? [];
}
