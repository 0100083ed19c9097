/** What a server of SMTP or LMTP answers: one type for those that we write and those that we read. */

export interface Reply {
  /** RFC 5321 section 4.2. */
  readonly code: number;
  /**
   * Enhanced status code (RFC 3463), of the class of `code` (RFC 2034 section 4). Absent where the
   * reply has none, as the greeting, the answer to EHLO, and every 3xx.
   */
  readonly enhanced?: string;
  /** Without the codes. The lines of a reply with several are separated by LF. */
  readonly text: string;
}

/**
 * A reply as it goes over the line, each of its lines ended by CRLF. The enhanced code stands on every
 * line (RFC 2034 section 4).
 *
 * @param reply its text has no control characters but the LF between its lines
 */
export function formatReply({ code, enhanced, text }: Reply): string {
  const lines = text.split('\n');
  const status = enhanced === undefined ? '' : `${enhanced} `;
  return lines
    .map((line, index) => `${code}${index < lines.length - 1 ? '-' : ' '}${status}${line}\r\n`)
    .join('');
}
