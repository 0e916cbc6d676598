import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { startCluster } from "../../tools/stack/cluster.ts";

/** A runner for the test to kill: a cluster with a running pod, held until the end. */
await using cluster = await startCluster();
const image = [`--image=${BUSYBOX_IMAGE}`, "--image-pull-policy=Never"];
await cluster.kubectl(["run", "shell", ...image]);
await cluster.waitFor("pod/shell", "--for=condition=Ready");
process.stdout.write("pod runs\n");
await new Promise(() => setInterval(() => {}, 60_000));
