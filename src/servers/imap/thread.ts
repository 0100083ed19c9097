/** THREAD and UID THREAD by subjects and by References (RFC 5256). */
import type { MadeNumbers } from '../../mailboxes/mailstore/mailstore.ts';
import { readMessageId } from '../../protocols/message/message.ts';
import { BadCommand } from './cursor.ts';
import { Pace, showProgress } from './long-work.ts';
import { readCharset, readKeys, type SearchKey } from './parse-search.ts';
import { inTurn } from './search.ts';
import { names } from './search-keys.ts';
import type { Answer, Command, Session } from './session.ts';
import { findMatches } from './sort.ts';
import { readBaseSubject, readTexts, refuseTooMany, textKey } from './sort-keys.ts';
import { threadNumbers } from './thread-numbers.ts';
import { type Forest, Threads, writeForest } from './threads.ts';

const ALGORITHMS = ['ORDEREDSUBJECT', 'REFERENCES'] as const;
type Algorithm = (typeof ALGORITHMS)[number];

/** Messages that are read at once. */
const AT_A_TIME = 4_096;
/** Characters that are passed on together. */
const JOINED = 32 * 1024;

export function threading(isByUid: boolean): Command<Answer> {
  return {
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      const name = command.space().atom('an algorithm').toUpperCase();
      const algorithm = ALGORITHMS.find((one) => one === name);
      if (!algorithm) throw new BadCommand('The algorithm is not known');
      const refusal = readCharset(command.space());
      if (refusal) throw refusal;
      const key = readKeys(command, session.now);
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
  const { uids: found } = await findMatches(session, key, session.selected.saved);
  refuseTooMany(found);
  const { services, user, selected } = session;
  const { facts } = services.mailstore.imap;
  const pace = new Pace(session);
  // By subjects no source is read.
  const isBySubject = algorithm === 'ORDEREDSUBJECT';
  const kind = isBySubject ? 'subjects' : 'threads';
  const make = (lacking: readonly number[]) => makeNumbers(session, lacking, !isBySubject, pace);
  const threads = new Threads();
  const there: number[] = [];
  for (let at = 0; at < found.length; at += AT_A_TIME) {
    await pace.yieldTurn();
    const uids = found.slice(at, at + AT_A_TIME);
    await facts.ofThreads(user, selected.mailbox, kind, {
      ...{ uids, make },
      take(uid, ...numbers) {
        there.push(uid);
        threads.add(...numbers);
      },
    });
  }
  const forest = isBySubject ? await threads.bySubject() : await threads.byReferences();
  return { forest, uids: there };
}

async function makeNumbers(
  session: Session,
  uids: readonly number[],
  withReferences: boolean,
  pace: Pace,
): Promise<MadeNumbers> {
  const { services, user, selected } = session;
  const made = new Map<number, readonly number[]>();
  const dates = await services.mailstore.imap.facts.read(user, selected.mailbox, uids);
  const sentAt = new Map(dates.map(({ uid, sent_at }) => [uid, sent_at]));
  for await (const messages of readTexts(session, uids, withReferences, pace)) {
    for (const { uid, envelope, texts } of messages) {
      const { text, isReply } = readBaseSubject(envelope.subject ?? '');
      const numbers = threadNumbers({
        id: readMessageId(envelope.messageId ?? ''),
        references: texts?.references ?? [],
        sentAt: sentAt.get(uid) ?? 0,
        subject: { text: textKey(text), isReply },
      });
      made.set(uid, numbers);
    }
  }
  return made;
}
