import { copyFile, cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BUNDLE_DIR, COMPILED_AHEAD, bundle, machineCode } from "./bundle.ts";
import { cached } from "./cache.ts";
import { COMPILED } from "./compile-ahead.ts";
import { ARCHITECTURES, NPM_CPUS, OWN_ARCHITECTURE, emulation } from "./image/architecture.ts";
import type { Architecture } from "./image/architecture.ts";
import { LIBRARY_PACKAGES, LIBRARY_SUITE, placeLibraries } from "./image/libraries.ts";
import { lockedPackage, nodePackage, npmPackage } from "./image/npm-package.ts";
import { packLayer, writeImage } from "./image/oci.ts";
import type { Layer } from "./image/oci.ts";
import { step, toolMain } from "./progress.ts";
import { run } from "./run.ts";
import manifest from "../package.json" with { type: "json" };

const BUILD = join(import.meta.dirname, "../build");
const IMAGE_DIR = join(BUILD, "image");
export const IMAGE = `s3csi.local/s3csi:${manifest.version}`;
export const IMAGE_ARCHIVE = join(IMAGE_DIR, "s3csi.tar");

/** The limits that the project has set itself, for each architecture. */
const UNPACKED_MAX_BYTES = 190e6;
const COMPRESSED_MAX_BYTES = 65e6;

const NODE = "usr/bin/node";
const PROGRAM = "usr/lib/s3csi";
const FILES = {
  "etc/passwd": "root:x:0:0::/:/sbin/nologin\ns3csi:x:1000:1000::/:/sbin/nologin\n",
  "etc/group": "root:x:0:\ns3csi:x:1000:\n",
  "etc/nsswitch.conf": "hosts: files dns\n",
};

export interface ImageSize {
  readonly architecture: Architecture;
  readonly unpackedBytes: number;
  readonly compressedBytes: number;
}

/**
 * The directory of one architecture's image as it is unpacked. deploy/Dockerfile copies it, too.
 */
export function imageRoot(architecture: Architecture): string {
  return join(IMAGE_DIR, "root", architecture);
}

/**
 * Builds the bundle and the image's archive: Node, the libraries it needs, the bundle, and nothing
 * else: no shell, no package manager.
 */
export async function buildImage(): Promise<ImageSize[]> {
  await bundle();
  await rm(IMAGE_DIR, { recursive: true, force: true });
  const platforms: Built[] = [];
  for (const architecture of ARCHITECTURES) {
    const base = await baseOf(architecture);
    const layers = [base.layer, await layOutProgram(architecture, base.root)];
    platforms.push({ architecture, layers });
  }
  await writeImage({
    name: IMAGE,
    platforms,
    archive: IMAGE_ARCHIVE,
    config: {
      User: "1000:1000",
      Entrypoint: [`/${NODE}`, `/${PROGRAM}/s3csi.cjs`],
      WorkingDir: "/",
    },
  });
  return platforms.map(checkedSize);
}

interface Base {
  readonly root: string;
  readonly layer: Layer;
}

/** The lower layer: Node and the libraries. It changes with their versions only. */
async function baseOf(architecture: Architecture): Promise<Base> {
  const node = nodePackage(architecture);
  const code = Object.values(machineCode(NPM_CPUS[architecture]));
  const packages = [node, ...code.map(({ package: name }) => name)];
  const locked = packages.map((name) => JSON.stringify(lockedPackage(name)));
  const key = [LIBRARY_SUITE, ...LIBRARY_PACKAGES, ...packages, ...locked];
  const dir = await cached(`image-base-${architecture}`, key, async (draft) => {
    const root = join(draft, "root");
    const program = join(await npmPackage(node, architecture), "bin/node");
    const natives = Object.values(await machineCodeOf(architecture));
    await placeLibraries([program, ...natives], architecture, root);
    await mkdir(dirname(join(root, NODE)), { recursive: true });
    await copyFile(program, join(root, NODE));
    const { blob, unpacked } = await packLayer(root, join(draft, "layer"));
    await writeFile(join(draft, "layer.json"), JSON.stringify({ blob, unpacked }));
  });
  const digests = JSON.parse(await readFile(join(dir, "layer.json"), "utf8")) as Omit<
    Layer,
    "file"
  >;
  return { root: join(dir, "root"), layer: { file: join(dir, "layer"), ...digests } };
}

/** The upper layer; the directory then has both, as a container sees them. */
async function layOutProgram(architecture: Architecture, base: string): Promise<Layer> {
  const root = imageRoot(architecture);
  const program = join(root, PROGRAM);
  await cp(BUNDLE_DIR, program, { recursive: true });
  for (const [path, text] of Object.entries(FILES)) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  await mkdir(join(root, "tmp"));
  if (architecture !== OWN_ARCHITECTURE) await adapt(program, architecture, base);
  const layer = await packLayer(root, join(IMAGE_DIR, `layer-${architecture}`));
  await cp(base, root, { recursive: true });
  return layer;
}

/** Exchanges what is not JavaScript in a bundle that was made for this machine. */
async function adapt(program: string, architecture: Architecture, base: string): Promise<void> {
  for (const [file, source] of Object.entries(await machineCodeOf(architecture))) {
    await copyFile(source, join(program, file));
  }
  for (const file of COMPILED_AHEAD) await rm(join(program, `${file}${COMPILED}`));
  const [emulator = "", ...args] = await emulation(architecture, base);
  const compiler = join(import.meta.dirname, "compile-ahead.ts");
  const files = COMPILED_AHEAD.map((file) => join(program, file));
  await run(emulator, [...args, join(base, NODE), compiler, ...files]);
}

/** The files of machine code beside the bundle, and where they come from. */
async function machineCodeOf(architecture: Architecture): Promise<Record<string, string>> {
  const sources: Record<string, string> = {};
  for (const { package: name, path, file } of Object.values(machineCode(NPM_CPUS[architecture]))) {
    sources[file] = join(await npmPackage(name, architecture), path);
  }
  return sources;
}

interface Built {
  readonly architecture: Architecture;
  readonly layers: readonly Layer[];
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, next) => total + next, 0);

function checkedSize({ architecture, layers }: Built): ImageSize {
  const unpackedBytes = sum(layers.map(({ unpacked }) => unpacked.size));
  const compressedBytes = sum(layers.map(({ blob }) => blob.size));
  const size = { architecture, unpackedBytes, compressedBytes };
  if (unpackedBytes > UNPACKED_MAX_BYTES || compressedBytes > COMPRESSED_MAX_BYTES) {
    throw new Error(`the image has grown too large: ${sizeInWords(size)}`);
  }
  return size;
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

function sizeInWords({ architecture, unpackedBytes, compressedBytes }: ImageSize): string {
  const unpacked = megabytes(unpackedBytes);
  return `${architecture}: ${unpacked} unpacked, ${megabytes(compressedBytes)} compressed`;
}

if (import.meta.main) {
  await toolMain(async () => {
    const sizes = await step(`building the image ${IMAGE}`, () => buildImage());
    process.stderr.write(`  ${IMAGE_ARCHIVE}\n`);
    for (const size of sizes) process.stderr.write(`  ${sizeInWords(size)}\n`);
  });
}
