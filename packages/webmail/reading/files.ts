/** Pictures within a mail, and files that are saved. */
import type { Attachment } from '../../sdk/src/api-types.ts';
import type { MailboxHandle, ReadMessage } from '../../sdk/src/mail/client.ts';
import { bareId, decodePercents, isPicture } from './stranger-text.ts';

/** A picture is a request each; a newsletter has some dozen. */
const PICTURES_MAX = 24;
/** Octets. */
const PICTURE_MAX = 3_000_000;

export interface SortedFiles {
  /** The HTML shows them by their Content-ID. */
  readonly pictures: readonly Attachment[];
  readonly attached: readonly Attachment[];
}

/** Sorts the files of a message by what a reader does with them. */
export function sortFiles({ attachments, html = '' }: ReadMessage): SortedFiles {
  const urls = html.matchAll(/\bcid:([^"'\s>)]+)/gi);
  const named = new Set([...urls].map(([, id = '']) => decodePercents(id)));
  const isShown = ({ contentId = '', contentType }: Attachment) =>
    isPicture(contentType) && named.has(bareId(contentId));
  return {
    pictures: attachments.filter(isShown),
    attached: attachments.filter((file) => !isShown(file)),
  };
}

/**
 * Pictures as `data:` URLs by Content-ID: a frame without an origin cannot read `blob:` URLs of the page. One that cannot
 * be had is left out: the mail is read without it.
 */
export async function readPictures(
  mailbox: MailboxHandle,
  { message }: ReadMessage,
  pictures: readonly Attachment[],
): Promise<Record<string, string>> {
  const urls: Record<string, string> = {};
  const wanted = pictures.filter(({ size }) => size <= PICTURE_MAX).slice(0, PICTURES_MAX);
  await Promise.all(
    wanted.map(async ({ part, contentId = '', contentType }) => {
      const bytes = await mailbox.attachment(message.id, part).catch(() => undefined);
      if (bytes)
        urls[bareId(contentId)] = await toDataUrl(new Blob([bytes], { type: contentType }));
    }),
  );
  return urls;
}

function toDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Saves bytes as a file. Their type is that of bytes alone: a browser that opens it shows no page of this origin. */
export function saveFile(bytes: Blob, filename: string): void {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = filename;
  link.click();
  // The browser reads it after this; a minute is enough.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
