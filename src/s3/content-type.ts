/** Types by extension, as IANA has registered them; one line for each type. */
const TYPES = `
  application/gzip gz tgz
  application/java-archive jar war ear
  application/json json map
  application/ld+json jsonld
  application/manifest+json webmanifest
  application/msword doc
  application/octet-stream bin
  application/pdf pdf
  application/rtf rtf
  application/sql sql
  application/vnd.apache.parquet parquet
  application/vnd.ms-excel xls
  application/vnd.ms-powerpoint ppt
  application/vnd.oasis.opendocument.presentation odp
  application/vnd.oasis.opendocument.spreadsheet ods
  application/vnd.oasis.opendocument.text odt
  application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
  application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
  application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
  application/wasm wasm
  application/x-7z-compressed 7z
  application/x-bzip2 bz2
  application/x-sh sh
  application/x-tar tar
  application/x-xz xz
  application/xml xml xsl xsd
  application/yaml yaml yml
  application/zip zip
  application/zstd zst
  audio/aac aac
  audio/flac flac
  audio/midi mid midi
  audio/mp4 m4a
  audio/mpeg mp3
  audio/ogg ogg oga opus
  audio/wav wav
  font/otf otf
  font/ttf ttf
  font/woff woff
  font/woff2 woff2
  image/avif avif
  image/bmp bmp
  image/gif gif
  image/heic heic
  image/jpeg jpg jpeg
  image/png png
  image/svg+xml svg
  image/tiff tif tiff
  image/vnd.microsoft.icon ico
  image/webp webp
  text/calendar ics
  text/css css
  text/csv csv
  text/html html htm
  text/javascript js mjs
  text/markdown md
  text/plain txt log text
  text/tab-separated-values tsv
  text/vtt vtt
  video/mp4 mp4 m4v
  video/mpeg mpeg mpg
  video/ogg ogv
  video/quicktime mov
  video/webm webm
  video/x-matroska mkv
  video/x-msvideo avi
`;

let byExtension: ReadonlyMap<string, string> | undefined;

/** The type that the extension of a key's last part stands for, if it is a common one. */
export function contentTypeOf(key: string): string | undefined {
  byExtension ??= readTypes();
  const [, extension] = /[^/]\.([a-z0-9]+)$/i.exec(key) ?? [];
  return extension === undefined ? undefined : byExtension.get(extension.toLowerCase());
}

function readTypes(): ReadonlyMap<string, string> {
  const lines = TYPES.trim().split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [type = "", ...extensions] = line.trim().split(" ");
      return extensions.map((extension) => [extension, type] as const);
    }),
  );
}
