import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { programs } from "../../programs.ts";
import { run } from "../../run.ts";

const CHART = join(import.meta.dirname, "../../../deploy/chart");
/** Of the chart all that objects need to exist and be judged: no pods that nobody could run. */
const TEMPLATES = [
  "mountpoint-pods", // with their namespace, which others need
  "crd",
  "controller-rbac",
  "provisioner-rbac",
  "attachment-policy",
  "event-policy",
];
const ACCOUNT = "s3-csi-driver-controller-sa";
/** As its pod would have it: with a token. Certificates cost the API server a check each time. */
const TOKEN_LIFE = "2h";

/** Gives the path of the controller's kubeconfig, with the rights that it has in a cluster. */
export async function install(adminKubeconfig: string): Promise<string> {
  const helm = join(await programs("helm"), "helm");
  const only = TEMPLATES.flatMap((name) => ["-s", `templates/${name}.yaml`]);
  const objects = await run(helm, ["template", "bench", CHART, ...only]);
  await kubectl(adminKubeconfig, ["apply", "-f", "-"], objects);
  const ask = ["create", "token", ACCOUNT, `--duration=${TOKEN_LIFE}`];
  const token = (await kubectl(adminKubeconfig, ask)).trim();
  return withToken(adminKubeconfig, token);
}

export async function kubectl(
  kubeconfig: string,
  args: readonly string[],
  input = "",
): Promise<string> {
  const program = join(await programs("kubernetes"), "kubectl");
  return run(program, ["--kubeconfig", kubeconfig, ...args], { input });
}

async function withToken(adminKubeconfig: string, token: string): Promise<string> {
  const path = join(dirname(adminKubeconfig), "controller.kubeconfig");
  const config: { users: { user: object }[] } = JSON.parse(await readFile(adminKubeconfig, "utf8"));
  const users = config.users.map((user) => ({ ...user, user: { token } }));
  await writeFile(path, JSON.stringify({ ...config, users }), { mode: 0o600 });
  return path;
}
