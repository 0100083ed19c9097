/** Reads our own Authentication-Results field (RFC 8601), for display with the message. */
import { decodeRawHeader, type HeaderField, rawValue } from '../../../protocols/message/message.ts';
import { isResultOf, RESULTS_FIELD, serviceName } from './judge-sender.ts';

/** One result of RFC 8601 section 2.7 for each method; `none` where the field has none. */
export interface SenderResults {
  readonly spf: string;
  readonly dkim: string;
  readonly dmarc: string;
}

const METHOD = /^\s*(spf|dkim|dmarc)\s*=\s*([a-z]{1,20})(?![\w-])/;

/**
 * What the sender checks found out about a message.
 *
 * @param fields of its header
 * @param hostname our authserv-id
 * @returns undefined where no field has our authserv-id: the message was not checked here
 */
export function readSenderResults(
  fields: readonly HeaderField[],
  hostname: string,
): SenderResults | undefined {
  const ours = serviceName(hostname);
  // The topmost: a field that the message had from outside is below it, or was removed.
  const field = fields.find((one) => one.name === RESULTS_FIELD && isResultOf(one, ours));
  if (!field) return undefined;
  const [, ...pieces] = withoutTexts(decodeRawHeader(rawValue(field)))
    .toLowerCase()
    .split(';');
  const found = pieces.flatMap((piece) => {
    const [, method, result = ''] = METHOD.exec(piece) ?? [];
    return method === undefined ? [] : [{ method, result }];
  });
  const resultsOf = (wanted: string) =>
    found.filter(({ method }) => method === wanted).map(({ result }) => result);
  const [spf, dkim, dmarc] = [resultsOf('spf'), resultsOf('dkim'), resultsOf('dmarc')];
  return {
    spf: spf[0] ?? 'none',
    // Of several signatures the best counts, of several authors the worst.
    dkim: dkim.find((result) => result === 'pass') ?? dkim[0] ?? 'none',
    dmarc: dmarc.find((result) => result !== 'pass') ?? dmarc[0] ?? 'none',
  };
}

/** Leaves out comments, which nest, and quoted strings: the sender chooses their text. */
function withoutTexts(text: string): string {
  let kept = '';
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '\\') at++;
    else if (character === '"' && depth === 0) quoted = !quoted;
    else if (quoted) continue;
    else if (character === '(') depth++;
    else if (character === ')') depth = Math.max(0, depth - 1);
    else if (depth === 0) kept += character;
  }
  return kept;
}
