/** What is looked at before a message is sent. */
import { isAddress } from './addresses.ts';
import type { ComposeContent } from './content.ts';

/** Octets of all files of a message: the call that sends it takes 16 MiB of JSON, in base64. */
export const FILES_MAX = 11_000_000;
/** As many as the call takes. */
const FILES_COUNT_MAX = 100;
/** To, Cc and Bcc together. */
const RECIPIENTS_MAX = 100;

interface Checked extends Pick<ComposeContent, 'to' | 'cc' | 'bcc' | 'subject' | 'text'> {
  readonly files: readonly { readonly size: number; readonly content?: unknown }[];
}

/** What has to be put right first, in words. */
export function findTrouble({ to, cc, bcc, files }: Checked): string | undefined {
  const recipients = [...to, ...cc, ...bcc];
  const bad = recipients.find(({ address }) => !isAddress(address));
  if (bad) return `"${bad.address}" is not an address.`;
  if (recipients.length === 0) return 'Enter a recipient.';
  if (recipients.length > RECIPIENTS_MAX) {
    return `A message has ${RECIPIENTS_MAX} recipients at most.`;
  }
  if (files.length > FILES_COUNT_MAX) return `A message has ${FILES_COUNT_MAX} files at most.`;
  return uploadSize(files) > FILES_MAX
    ? `The files are too large: ${FILES_MAX / 1_000_000} MB at most.`
    : undefined;
}

/** Octets that have to be sent: a part of another message is only named. */
export function uploadSize(files: Checked['files']): number {
  return files.reduce((sum, { size, content }) => (content === undefined ? sum : sum + size), 0);
}

const PROMISE =
  /\b(?:attach(?:ed|ment|ments|ing)?|enclosed|(?:im|siehe) anhang|angehängt|anbei|beigefügt|pi[eè]ces? jointes?|ci-joint|adjunt[oa]s?|allegat[oi]|in bijlage|bijgevoegd)\b/i;

/** The word by which a text speaks of a file that is not there; undefined where there is nothing to ask. */
export function findMissingFile(message: Checked): string | undefined {
  if (message.files.length > 0) return undefined;
  // What is quoted speaks of the files of another message.
  const own = message.text.replace(/^>.*$/gm, '');
  return PROMISE.exec(`${message.subject.replace(/^(?:re|fwd):.*/i, '')}\n${own}`)?.[0];
}
