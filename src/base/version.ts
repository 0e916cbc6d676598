import manifest from "../../package.json" with { type: "json" };

/** Version = tag = image = chart. */
export const VERSION: string = manifest.version;
