import { workerMain } from "../apart.ts";
import { compareFigures } from "./figures.ts";

await workerMain(([commit = "", rounds], progress) =>
  compareFigures(commit, Number(rounds), progress),
);
