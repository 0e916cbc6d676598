import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { constants, createZstdCompress } from "node:zlib";
import { run } from "./run.ts";

const REPRODUCIBLE = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
const LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd";
const COMPRESSION_LEVEL = 9;

export interface ImageOptions {
  /** Full name with tag, as pods name it. */
  readonly name: string;
  /** The directory whose content becomes the image's root. */
  readonly root: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly archive: string;
}

export interface ImageSize {
  readonly unpackedBytes: number;
  readonly compressedBytes: number;
}

interface Blob {
  readonly digest: string;
  readonly size: number;
}

/**
 * Writes an OCI archive of one layer. No daemon, no registry; the same input gives the same bytes.
 * containerd takes it as it is: `ctr -n k8s.io images import ARCHIVE`.
 */
export async function writeImage(options: ImageOptions): Promise<ImageSize> {
  await mkdir(dirname(options.archive), { recursive: true });
  const draft = await mkdtemp(`${options.archive}.`);
  try {
    const size = await writeLayout(draft, options);
    const out = `${draft}.tar`;
    await run("tar", [
      ...REPRODUCIBLE,
      "-cf",
      out,
      "-C",
      draft,
      "index.json",
      "oci-layout",
      "blobs",
    ]);
    await rename(out, options.archive);
    return size;
  } finally {
    await rm(draft, { recursive: true });
  }
}

async function writeLayout(dir: string, options: ImageOptions): Promise<ImageSize> {
  const blobs = join(dir, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const tar = join(dir, "layer.tar");
  await run("tar", [...REPRODUCIBLE, "-cf", tar, "-C", options.root, "."]);
  const plain = await digestOf(tar);
  const params = { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL };
  const packed = join(dir, "layer");
  const compress = createZstdCompress({ params });
  await pipeline(createReadStream(tar), compress, createWriteStream(packed));
  await rm(tar);
  const layer = await digestOf(packed);
  await rename(packed, join(blobs, layer.digest));

  const config = await writeJson(blobs, {
    architecture: process.arch === "x64" ? "amd64" : process.arch,
    os: "linux",
    config: options.config,
    rootfs: { type: "layers", diff_ids: [`sha256:${plain.digest}`] },
  });
  const manifestType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = await writeJson(blobs, {
    schemaVersion: 2,
    mediaType: manifestType,
    config: descriptor("application/vnd.oci.image.config.v1+json", config),
    layers: [descriptor(LAYER_TYPE, layer)],
  });
  const annotations = {
    "io.containerd.image.name": options.name,
    "org.opencontainers.image.ref.name": options.name,
  };
  const index = {
    schemaVersion: 2,
    manifests: [{ ...descriptor(manifestType, manifest), annotations }],
  };
  await writeFile(join(dir, "index.json"), JSON.stringify(index));
  await writeFile(join(dir, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return { unpackedBytes: plain.size, compressedBytes: layer.size };
}

function descriptor(mediaType: string, { digest, size }: Blob) {
  return { mediaType, digest: `sha256:${digest}`, size };
}

async function writeJson(blobs: string, value: unknown): Promise<Blob> {
  const text = JSON.stringify(value);
  const digest = createHash("sha256").update(text).digest("hex");
  await writeFile(join(blobs, digest), text);
  return { digest, size: Buffer.byteLength(text) };
}

async function digestOf(path: string): Promise<Blob> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return { digest: hash.digest("hex"), size: (await stat(path)).size };
}
