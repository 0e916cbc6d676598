import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { constants, createZstdCompress } from "node:zlib";
import { run } from "../run.ts";

const REPRODUCIBLE = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];
const INDEX_TYPE = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd";
const COMPRESSION_LEVEL = 9;

export interface ImageOptions {
  /** Full name with tag, as pods name it. */
  readonly name: string;
  readonly platforms: readonly Platform[];
  readonly config: Readonly<Record<string, unknown>>;
  readonly archive: string;
}

export interface Platform {
  readonly architecture: string;
  /** From the lowest to the highest. */
  readonly layers: readonly Layer[];
}

/** A compressed layer in a file. */
export interface Layer {
  readonly file: string;
  readonly blob: Blob;
  /** Digest and size before the compression. */
  readonly unpacked: Blob;
}

interface Blob {
  readonly digest: string;
  readonly size: number;
}

/** Packs a directory as a layer; the same content gives the same bytes. */
export async function packLayer(root: string, file: string): Promise<Layer> {
  const tar = `${file}.tar`;
  await run("tar", [...REPRODUCIBLE, "-cf", tar, "-C", root, "."]);
  const unpacked = await digestOf(tar);
  const params = { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL };
  await pipeline(createReadStream(tar), createZstdCompress({ params }), createWriteStream(file));
  await rm(tar);
  return { file, blob: await digestOf(file), unpacked };
}

/**
 * Writes an OCI archive with one manifest per platform. No daemon, no registry; the same input
 * gives the same bytes. containerd imports the archive: `ctr -n k8s.io images import ARCHIVE`.
 */
export async function writeImage(options: ImageOptions): Promise<void> {
  await mkdir(dirname(options.archive), { recursive: true });
  const draft = await mkdtemp(`${options.archive}.`);
  try {
    await writeLayout(draft, options);
    const out = `${draft}.tar`;
    const names = ["index.json", "oci-layout", "blobs"];
    await run("tar", [...REPRODUCIBLE, "-cf", out, "-C", draft, ...names]);
    await rename(out, options.archive);
  } finally {
    await rm(draft, { recursive: true });
  }
}

async function writeLayout(dir: string, { name, platforms, config }: ImageOptions): Promise<void> {
  const blobs = join(dir, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const manifests = [];
  for (const platform of platforms) manifests.push(await writePlatform(blobs, platform, config));
  const image = await writeJson(blobs, { schemaVersion: 2, mediaType: INDEX_TYPE, manifests });
  const annotations = {
    "io.containerd.image.name": name,
    "org.opencontainers.image.ref.name": name,
  };
  const named = { ...descriptor(INDEX_TYPE, image), annotations };
  await writeFile(
    join(dir, "index.json"),
    JSON.stringify({ schemaVersion: 2, mediaType: INDEX_TYPE, manifests: [named] }),
  );
  await writeFile(join(dir, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
}

async function writePlatform(
  blobs: string,
  { architecture, layers }: Platform,
  config: ImageOptions["config"],
) {
  for (const { file, blob } of layers) await copyFile(file, join(blobs, blob.digest));
  const platform = { architecture, os: "linux" };
  const configBlob = await writeJson(blobs, {
    ...platform,
    config,
    rootfs: { type: "layers", diff_ids: layers.map(({ unpacked }) => `sha256:${unpacked.digest}`) },
  });
  const manifest = await writeJson(blobs, {
    schemaVersion: 2,
    mediaType: MANIFEST_TYPE,
    config: descriptor(CONFIG_TYPE, configBlob),
    layers: layers.map(({ blob }) => descriptor(LAYER_TYPE, blob)),
  });
  return { ...descriptor(MANIFEST_TYPE, manifest), platform };
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
