/** THREAD and UID THREAD by subjects and by References (RFC 5256). */
import { readMessageId } from '../../protocols/message/message.ts';
import { BadCommand } from './cursor.ts';
import { names } from './find-messages.ts';
import { showProgress } from './long-work.ts';
import { readCharset, readKeys, type SearchKey } from './parse-search.ts';
import { inTurn } from './search.ts';
import type { Command, Session } from './session.ts';
import { findMatches } from './sort.ts';
import { readBaseSubject, readInPieces, sentAt, textKey } from './sort-keys.ts';
import { type Forest, Threads, writeForest } from './threads.ts';

const ALGORITHMS = ['ORDEREDSUBJECT', 'REFERENCES'] as const;
type Algorithm = (typeof ALGORITHMS)[number];

/** Characters that are passed on together. */
const JOINED = 32 * 1024;

export function threading(isByUid: boolean): Command {
  return {
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      const name = command.space().atom('an algorithm').toUpperCase();
      const algorithm = ALGORITHMS.find((one) => one === name);
      if (!algorithm) throw new BadCommand('The algorithm is not known');
      const refusal = readCharset(command.space());
      if (refusal) throw refusal;
      const key = readKeys(command);
      if (names(key, 'modseq')) yield session.enableCondstore();
      const finding = inTurn(session, () => findThreads(session, algorithm, key));
      const { forest, uids } = yield* showProgress(session, finding);
      const nameOf = (message: number) => {
        const uid = uids[message] ?? 0;
        return isByUid ? uid : session.selected.numberOf(uid);
      };
      let joined = '* THREAD';
      let isFirst = true;
      for (const piece of writeForest(forest, nameOf)) {
        joined += isFirst ? ` ${piece}` : piece;
        isFirst = false;
        if (joined.length < JOINED) continue;
        yield joined;
        joined = '';
      }
      yield `${joined}\r\n`;
      return 'That is all';
    },
  };
}

async function findThreads(
  session: Session,
  algorithm: Algorithm,
  key: SearchKey,
): Promise<{ forest: Forest; uids: readonly number[] }> {
  const found = await findMatches(session, key, session.selected.saved);
  const threads = new Threads();
  const uids: number[] = [];
  const needsTexts = algorithm === 'REFERENCES';
  const asked = found.map(({ uid }) => uid);
  for await (const messages of readInPieces(session, asked, { withEnvelopes: true, needsTexts })) {
    for (const { row, envelope, texts } of messages) {
      const { text, isReply } = readBaseSubject(envelope.subject ?? '');
      threads.add({
        id: texts && readMessageId(envelope.messageId ?? ''),
        references: texts?.references ?? [],
        sentAt: sentAt(envelope, row),
        subject: { text: textKey(text), isReply },
      });
      uids.push(row.uid);
    }
  }
  const forest = needsTexts ? await threads.byReferences() : await threads.bySubject();
  return { forest, uids };
}
