import { copyFile, cp, mkdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BUNDLE_DIR, bundle, bundledMachineCode } from "./bundle.ts";
import { writeImage } from "./oci.ts";
import type { ImageSize } from "./oci.ts";
import { step, toolMain } from "./progress.ts";
import { run } from "./run.ts";
import manifest from "../package.json" with { type: "json" };

const BUILD = join(import.meta.dirname, "../build");
const ROOT = join(BUILD, "image/root");
export const IMAGE = `s3csi.local/s3csi:${manifest.version}`;
export const IMAGE_ARCHIVE = join(BUILD, "image/s3csi.tar");

/** The limits that the project has set itself. */
const UNPACKED_MAX_BYTES = 190e6;
const COMPRESSED_MAX_BYTES = 65e6;

const FILES = {
  "etc/passwd": "root:x:0:0::/:/sbin/nologin\ns3csi:x:1000:1000::/:/sbin/nologin\n",
  "etc/group": "root:x:0:\ns3csi:x:1000:\n",
  "etc/nsswitch.conf": "hosts: files dns\n",
};

/**
 * Lays out build/image/root: Node, the bundle, the libraries they need, and nothing else:
 * no shell, no package manager. deploy/Dockerfile copies this very directory.
 */
async function layOut(): Promise<void> {
  await rm(ROOT, { recursive: true, force: true });
  const node = process.execPath;
  await place(node, "usr/bin/node");
  for (const program of [node, ...bundledMachineCode()]) {
    for (const library of await librariesOf(program)) await place(library, library);
  }
  await cp(BUNDLE_DIR, join(ROOT, "usr/lib/s3csi"), { recursive: true });
  for (const [path, text] of Object.entries(FILES)) {
    await mkdir(join(ROOT, dirname(path)), { recursive: true });
    await writeFile(join(ROOT, path), text);
  }
  await mkdir(join(ROOT, "tmp"), { recursive: true });
}

/** The loader too: an image without a system has to bring its own. */
async function librariesOf(program: string): Promise<string[]> {
  const lines = (await run("ldd", [program])).split("\n");
  return lines.flatMap((line) => {
    const [, path] = /(?:=> )?(\/\S+) \(0x/.exec(line) ?? [];
    return path === undefined ? [] : [path];
  });
}

async function place(source: string, path: string): Promise<void> {
  const target = join(ROOT, path);
  await mkdir(dirname(target), { recursive: true });
  await copyFile(await realpath(source), target);
}

/** Builds the bundle and the image's archive. */
export async function buildImage(): Promise<ImageSize> {
  await bundle();
  await layOut();
  const size = await writeImage({
    name: IMAGE,
    root: ROOT,
    archive: IMAGE_ARCHIVE,
    config: {
      User: "1000:1000",
      Entrypoint: ["/usr/bin/node", "/usr/lib/s3csi/s3csi.cjs"],
      WorkingDir: "/",
    },
  });
  if (size.unpackedBytes > UNPACKED_MAX_BYTES || size.compressedBytes > COMPRESSED_MAX_BYTES) {
    throw new Error(`the image has grown too large: ${sizeInWords(size)}`);
  }
  return size;
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

function sizeInWords({ unpackedBytes, compressedBytes }: ImageSize): string {
  return `${megabytes(unpackedBytes)} unpacked, ${megabytes(compressedBytes)} compressed`;
}

if (import.meta.main) {
  await toolMain(async () => {
    const size = await step(`building the image ${IMAGE}`, () => buildImage());
    process.stderr.write(`  ${IMAGE_ARCHIVE}\n  ${sizeInWords(size)}\n`);
  });
}
