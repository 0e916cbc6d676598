import { crunRoot } from "../../crun.ts";
import { programs } from "../../programs.ts";
import { startApiServer } from "../../stack/api-server.ts";
import { BUSYBOX_IMAGE, busyboxArchive } from "../../stack/busybox-image.ts";
import { startCluster } from "../../stack/cluster.ts";
import { startS3Server } from "../../stack/s3-server.ts";
import { median } from "../median.ts";
import type { Figures, Part } from "../part.ts";

const ROUNDS = 3;

/** Adds what each piece of work took to a list per figure. */
class Times {
  readonly #lists = new Map<string, number[]>();

  async time<T>(figure: string, work: () => PromiseLike<T>): Promise<T> {
    const startedMs = performance.now();
    const result = await work();
    const list = this.#lists.get(figure) ?? [];
    this.#lists.set(figure, [...list, performance.now() - startedMs]);
    return result;
  }

  medians(): Figures {
    return Object.fromEntries([...this.#lists].map(([name, list]) => [name, median(list)]));
  }
}

async function run(progress: (text: string) => void): Promise<Figures> {
  const times = new Times();
  for (const group of ["kubernetes", "versitygw"] as const) await programs(group); // not a start
  await busyboxArchive();
  await crunRoot();
  for (let round = 1; round <= ROUNDS; round += 1) {
    const say = (text: string) => progress(`round ${round} of ${ROUNDS}: ${text}`);
    say("S3 server");
    await using s3 = await times.time("s3_server_ready_ms", startS3Server);
    await s3[Symbol.asyncDispose]();
    say("API server");
    await using plane = await times.time("api_server_ready_ms", startApiServer);
    await plane[Symbol.asyncDispose]();
    say("cluster");
    await using cluster = await times.time("node_ready_ms", startCluster);
    say("first pod");
    await times.time("first_pod_ready_ms", async () => {
      const image = [`--image=${BUSYBOX_IMAGE}`, "--image-pull-policy=Never"];
      await cluster.kubectl(["run", "first", ...image]);
      await cluster.waitFor("pod/first", "--for=condition=Ready");
    });
    say("teardown");
    await times.time("teardown_ms", () => cluster[Symbol.asyncDispose]());
  }
  return { rounds: ROUNDS, ...times.medians() };
}

export const part: Part = {
  name: "stack",
  description: "how fast the test stack starts and ends; medians",
  run,
};
