/**
 * What the header fields of a part say about its content, with the defaults of MIME.
 */
import { type ParameterizedValue, parseParameterized } from './parameters.ts';
import { cleanText, decodeRawHeader } from './text.ts';

/** Longest boundary that is looked for; RFC 2046 section 5.1.1 allows 70 characters. */
const MAX_BOUNDARY = 256;
const MAX_ID = 1_000;

/** `type/subtype`: two tokens (RFC 2045 section 5.1) of at most 127 characters (RFC 6838). */
const MEDIA_TYPE = /^([\w!#$%&'*+.^`|~{}-]{1,127})\s*\/\s*([\w!#$%&'*+.^`|~{}-]{1,127})/;
const TOKEN = /^"?([\w!#$%&'*+.^`|~{}-]{1,64})/;

export interface PartContent {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly encoding: string;
  readonly id: string | undefined;
  readonly disposition: string | undefined;
  readonly dispositionParameters: Readonly<Record<string, string>>;
  /** Where the type is multipart and names a usable one: one character per byte. */
  readonly boundary: string | undefined;
}

const identityEncodings = new Set(['7bit', '8bit', 'binary']);

/** Whether the content stands in the message as it is (RFC 2045 section 6.2). */
export function isIdentity(encoding: string): boolean {
  return identityEncodings.has(encoding);
}

interface ContentType extends ParameterizedValue {
  readonly type: string;
}

function readType(field: string | undefined, defaultType: string): ContentType {
  const plainText = { charset: 'us-ascii' };
  if (field === undefined) {
    const parameters = defaultType === 'text/plain' ? plainText : {};
    return { type: defaultType, value: '', parameters, boundary: undefined };
  }
  const parsed = parseParameterized(field);
  const match = MEDIA_TYPE.exec(parsed.value);
  // RFC 2045 section 5.2: a Content-Type that cannot be read counts as the default of all.
  if (!match) return { ...parsed, type: 'text/plain', parameters: plainText, boundary: undefined };
  return { ...parsed, type: `${match[1]}/${match[2]}`.toLowerCase() };
}

function readEncoding(field: string | undefined, type: string): string {
  const encoding = TOKEN.exec(field ?? '')?.[1]?.toLowerCase() ?? '7bit';
  // RFC 2045 section 6.4 forbids other encodings on multiparts: readers ignore them.
  return type.startsWith('multipart/') && !isIdentity(encoding) ? '7bit' : encoding;
}

function readBoundary(type: string, boundary: string | undefined): string | undefined {
  if (!type.startsWith('multipart/')) return undefined;
  // RFC 2046 section 5.1.1: a boundary does not end in white space.
  const trimmed = boundary?.trimEnd();
  return trimmed && trimmed.length <= MAX_BOUNDARY ? trimmed : undefined;
}

/**
 * Reads the content fields of a part.
 *
 * @param fieldOf gives the raw value of a field by its lower-case name
 * @param defaultType what a part without Content-Type is: `text/plain`, or `message/rfc822` in a
 *   multipart/digest (RFC 2046 section 5.1.5)
 */
export function readContent(
  fieldOf: (name: string) => string | undefined,
  defaultType: string,
): PartContent {
  const { type, parameters, boundary } = readType(fieldOf('content-type'), defaultType);
  const disposition = parseParameterized(fieldOf('content-disposition') ?? '');
  const id = cleanText(decodeRawHeader(fieldOf('content-id') ?? '').slice(0, MAX_ID));
  return {
    type,
    parameters,
    encoding: readEncoding(fieldOf('content-transfer-encoding'), type),
    id: id === '' ? undefined : id,
    disposition: TOKEN.exec(disposition.value)?.[1]?.toLowerCase(),
    dispositionParameters: disposition.parameters,
    boundary: readBoundary(type, boundary),
  };
}
