import { setTimeout as delay } from "node:timers/promises";
import { join } from "node:path";
import { Secret } from "../../../src/base/secret.ts";
import { fixedCredentials } from "../../../src/s3/credentials.ts";
import { locate } from "../../../src/s3/s3-location.ts";
import { S3Store } from "../../../src/s3/s3-store.ts";
import { S3Transport } from "../../../src/s3/s3-transport.ts";
import { CHECKSUM_KINDS } from "../../../src/s3/upload-checksum.ts";
import { run as runProgram } from "../../run.ts";
import { startS3Server } from "../../stack/s3-server.ts";
import type { S3Access } from "../../stack/s3-server.ts";
import { CASES, firstStat } from "../engine/cases.ts";
import type { Case } from "../engine/cases.ts";
import { fill, FLAT, inParallel, LARGE, limit, sha256Of } from "../engine/content.ts";
import { Mounted, ourEngine, s3fs } from "../engine/contenders.ts";
import type { Contender } from "../engine/contenders.ts";
import { median } from "../median.ts";
import type { Figures, Part } from "../part.ts";

const BUCKET = "bench";
const ROUNDS = Number(process.env["ROUNDS"] ?? 5);
const RANGE_BYTES = 8 << 20;

const ignore = () => undefined;

type Sample = Readonly<Record<"s" | "cpu_s" | "rss_mb", number>>;

/** Samples by case and contender. */
class Samples {
  readonly #lists = new Map<string, Sample[]>();

  add(of: string, by: string, sample: Sample): void {
    const list = this.#lists.get(`${of} ${by}`) ?? [];
    this.#lists.set(`${of} ${by}`, [...list, sample]);
  }

  median(of: string, by: string, what: keyof Sample): number | undefined {
    const list = this.#lists.get(`${of} ${by}`);
    return list === undefined ? undefined : median(list.map((sample) => sample[what]));
  }

  figuresOf(of: string): Figures {
    const figures: Record<string, number> = {};
    for (const what of ["s", "cpu_s", "rss_mb"] as const) {
      figures[`${of}_${what}`] = this.median(of, "s3csi", what) ?? Number.NaN;
    }
    const theirs = this.median(of, "s3fs", "s");
    if (theirs === undefined) return figures;
    figures[`${of}_s3fs_s`] = theirs;
    figures[`${of}_s3fs_cpu_s`] = this.median(of, "s3fs", "cpu_s") ?? Number.NaN;
    figures[`${of}_vs_s3fs`] = theirs / (figures[`${of}_s`] ?? Number.NaN);
    return figures;
  }
}

async function seconds(work: () => PromiseLike<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

async function measure(contender: Contender, { work }: Case, attempt: string): Promise<Sample> {
  await using mounted = await Mounted.start(contender);
  const before = mounted.cpuSeconds;
  const s = await seconds(() => work(mounted.directory, `${contender.name}-${attempt}`));
  return { s, cpu_s: mounted.cpuSeconds - before, rss_mb: mounted.memoryMb("VmHWM") };
}

/** From the start of the program to its first answer; what it holds a second later. */
async function measureMount(contender: Contender): Promise<Sample> {
  const startedMs = performance.now();
  await using mounted = await Mounted.start(contender);
  await firstStat(mounted.directory);
  const s = (performance.now() - startedMs) / 1000;
  await delay(1000);
  return { s, cpu_s: mounted.cpuSeconds, rss_mb: mounted.memoryMb("VmRSS") };
}

/** The ceiling: the same bytes by plain parallel HTTP, the same names by bare LIST calls. */
async function ceilings(store: S3Store): Promise<Figures> {
  const key = LARGE.key;
  const { etag = "" } = (await store.head(key, limit())) ?? {};
  const offsets = Array.from({ length: LARGE.sizeBytes / RANGE_BYTES }, (_, n) => n * RANGE_BYTES);
  const buffers = Array.from({ length: 16 }, () => Buffer.allocUnsafeSlow(RANGE_BYTES));
  const http = await seconds(() =>
    inParallel(offsets, async (offsetBytes) => {
      const into = buffers.pop() ?? Buffer.allocUnsafeSlow(RANGE_BYTES);
      await store.read({ key, etag, offsetBytes, into, onFilled: ignore }, limit());
      buffers.push(into);
    }),
  );
  const list = await seconds(async () => {
    const query = { prefix: `${FLAT.directory}/`, delimiter: "/", keysMax: 1000 } as const;
    let continuationToken: string | undefined;
    do {
      const page = await store.list({ ...query, continuationToken }, limit());
      continuationToken = page.nextToken;
    } while (continuationToken !== undefined);
  });
  return { read1_http_s: http, ls_bare_s: list };
}

async function checkBytes(contender: Contender): Promise<void> {
  await using mounted = await Mounted.start(contender);
  const said = await runProgram("sha256sum", [join(mounted.directory, LARGE.key)]);
  if (said.split(" ")[0] !== sha256Of(LARGE.sizeBytes)) throw new Error("wrong bytes were read");
}

async function openStore({ endpoint, region, ...keys }: S3Access): Promise<S3Store> {
  const { accessKeyId } = keys;
  const secretAccessKey = new Secret(keys.secretAccessKey);
  const transport = new S3Transport({
    location: locate({ bucket: BUCKET, region, endpointUrl: endpoint, forcePathStyle: true }),
    credentials: fixedCredentials({ accessKeyId, secretAccessKey, sessionToken: undefined }),
    ca: undefined,
    userAgent: "s3csi-bench",
    connectionsMax: 16,
    connectTimeoutMs: 3_000,
    silenceLimitMs: 20_000,
    signsPayload: false,
    extraHeaders: {},
  });
  await transport.send({ method: "PUT", key: "" }, limit());
  const uploads = { objectHeaders: {}, checksum: CHECKSUM_KINDS.crc32 };
  return new S3Store(transport, { attemptsMax: 3, windowMs: 10_000 }, uploads);
}

async function run(progress: (text: string) => void): Promise<Figures> {
  await using server = await startS3Server();
  const store = await openStore(server);
  await fill(store, progress);
  const ours = await ourEngine(server, BUCKET);
  const contenders = [ours, await s3fs(server, BUCKET)];
  await checkBytes(ours);
  const samples = new Samples();
  for (let round = 1; round <= ROUNDS; round++) {
    for (const one of CASES) {
      for (const contender of one.oursOnly === true ? [ours] : contenders) {
        progress(`round ${round} of ${ROUNDS}: ${one.name} by ${contender.name}`);
        samples.add(one.name, contender.name, await measure(contender, one, String(round)));
      }
    }
    for (const contender of contenders) {
      progress(`round ${round} of ${ROUNDS}: mount by ${contender.name}`);
      samples.add("mount", contender.name, await measureMount(contender));
    }
  }
  const all = [...CASES.map(({ name }) => name), "mount"].map((name) => samples.figuresOf(name));
  progress("the ceilings");
  const bare = await ceilings(store);
  store.close();
  return Object.assign({ rounds: ROUNDS }, ...all, bare) as Figures;
}

export const part: Part = {
  name: "engine",
  description: "a mounted bucket by s3csi and by s3fs, interleaved on one S3 server; medians",
  run,
};
