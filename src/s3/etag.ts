/** An entity tag without a character: a server sends it for objects that have no ETag. */
const EMPTY_TAG = /^(?:W\/)?""$/;

/**
 * The ETag as RFC 9110 writes it, in quotes. Some servers leave them out in a listing or in a
 * header: all answers are normalised where they are parsed, so that one version has one ETag
 * wherever it is compared, noted in the journal or sent as If-Match. Empty: there is none. An
 * empty tag between quotes counts as none, since it is the same for every version of an object.
 */
export function etagOf(text: string | undefined): string {
  if (text === undefined || text === "" || EMPTY_TAG.test(text)) return "";
  return text.endsWith('"') ? text : `"${text}"`;
}
