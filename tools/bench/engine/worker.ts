import { workerMain } from "../apart.ts";
import { engineFigures } from "./rounds.ts";

await workerMain(([rounds, scales], progress) =>
  engineFigures({ rounds: Number(rounds), scales: scales === "scales" }, progress),
);
