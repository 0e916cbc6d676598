import { tableOfAims } from "../aim.ts";
import type { Aim } from "../aim.ts";
import type { Figures } from "../part.ts";

/** Case → what it is, in a person's words. */
export const TITLES = {
  read1: "sequential read of 1 GiB",
  read4: "4 files of 256 MiB at once",
  write: "sequential write of 1 GiB",
  rand1: "random 4 KiB reads, 1 job",
  rand4: "random 4 KiB reads, 4 jobs",
  ls: "`ls -l` of 10,000 objects",
  find: "`find` over 100 × 100 objects",
  small: "500 files of 4 KiB: create, read",
  mount: "start to first stat; idle",
} as const;

const AIMS: readonly Aim[] = [
  { title: TITLES.read1, figure: "read1_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.read1, figure: "read1_cpu_s", unit: "CPU s", atMost: 0.8 },
  { title: TITLES.read1, figure: "read1_rss_mb", unit: "MB", atMost: 200 },
  { title: TITLES.read4, figure: "read4_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.write, figure: "write_vs_s3fs", unit: "× s3fs", atLeast: 2.2 },
  { title: TITLES.write, figure: "write_cpu_s", unit: "CPU s", atMost: 1 },
  { title: TITLES.write, figure: "write_rss_mb", unit: "MB", atMost: 250 },
  { title: TITLES.rand1, figure: "rand1_vs_rclone", unit: "× rclone", atLeast: 3 },
  { title: TITLES.rand4, figure: "rand4_vs_rclone", unit: "× rclone", atLeast: 3 },
  {
    title: "fetched for one of them",
    figure: "rand_fetched_kib_per_read",
    unit: "KiB",
    atMost: 128,
  },
  { title: TITLES.ls, figure: "ls_vs_s3fs", unit: "× s3fs", atLeast: 7 },
  { title: TITLES.ls, figure: "ls_vs_bare", unit: "× the bare LIST calls", atMost: 1.5 },
  { title: TITLES.find, figure: "find_vs_s3fs", unit: "× s3fs", atLeast: 8 },
  { title: TITLES.find, figure: "find_vs_bare", unit: "× the bare LIST calls", atMost: 1.5 },
  { title: TITLES.small, figure: "small_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.mount, figure: "mount_s", unit: "s", atMost: 0.15 },
  { title: TITLES.mount, figure: "mount_rss_mb", unit: "MB", atMost: 80 },
];

/** `×` s3fs and rclone: times as fast. */
export function aimTable(figures: Figures): string {
  return tableOfAims(AIMS, figures);
}
