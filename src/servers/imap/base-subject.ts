/** The base subject (RFC 5256 section 2.1): what is left without `Re:`, `[Fwd: ...]`, `(fwd)` and names of lists. */

export interface BaseSubject {
  readonly text: string;
  /** Whether something was left out that only answers and forwarded messages have. */
  readonly isReply: boolean;
}

/** Characters that are read: the patterns below must not take long over what a stranger wrote. */
const LENGTH_MAX = 256;
/** `subj-trailer`. */
const TRAILER = /(?:\(fwd\)|\s)$/i;
/** `subj-blob`s and a `subj-refwd`; then blobs alone. */
const LEADER = /^\s*(?:\[[^[\]]*\]\s*)*(?:re|fwd?)\s*(?:\[[^[\]]*\]\s*)?:\s*/i;
const BLOB = /^\[[^[\]]*\]\s*/;
/** `subj-fwd`. */
const FORWARDED = /^\[fwd:(.*)\]$/i;

/** @param subject decoded and unfolded */
export function readBaseSubject(subject: string): BaseSubject {
  let text = subject.slice(0, LENGTH_MAX).replace(/\s+/g, ' ').trimStart();
  let isReply = false;
  for (;;) {
    // Steps 2 to 5.
    for (let before = ''; before !== text; ) {
      before = text;
      const withoutTrailer = text.replace(TRAILER, '');
      isReply ||= text.endsWith(')') && withoutTrailer !== text;
      const withoutLeader = withoutTrailer.replace(LEADER, '');
      isReply ||= withoutLeader !== withoutTrailer;
      text = withoutLeader.trimStart();
      const rest = text.replace(BLOB, '');
      if (rest !== '') text = rest;
    }
    // Step 6.
    const forwarded = FORWARDED.exec(text);
    if (!forwarded) return { text, isReply };
    text = (forwarded[1] ?? '').trimStart();
    isReply = true;
  }
}
