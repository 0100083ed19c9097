/** What happened to one message: from the connection to the mailbox, webhook or bounce. */
import type { TraceItem } from '../api/types.ts';
import { State, toneOf, When } from '../ui/basics.tsx';
import { count, formatSpan } from '../ui/format.ts';

/** Events of one delivery that say the same, one after the other. */
interface Same {
  readonly first: TraceItem;
  readonly items: TraceItem[];
}

/** The oldest first; attempts that ended alike are one line, at the time of the first. */
export function TimeLine({ items }: { items: readonly TraceItem[] }) {
  const start = items[0]?.at ?? '';
  return (
    <ol class="time-line">
      {fold(items).map((same, index) => (
        <Step key={`${same.first.at} ${index}`} same={same} start={start} />
      ))}
    </ol>
  );
}

const textOf = ({ event, status, detail }: TraceItem) => JSON.stringify([event, status, detail]);

function fold(items: readonly TraceItem[]): readonly Same[] {
  const all: Same[] = [];
  /** The newest of each delivery and recipient. */
  const newest = new Map<string, Same>();
  for (const item of items) {
    const track = `${item.delivery_id} ${item.recipient}`;
    const before = newest.get(track);
    const isAttempt = item.event.endsWith('_attempt');
    if (before && isAttempt && textOf(before.first) === textOf(item)) before.items.push(item);
    else {
      const same = { first: item, items: [item] };
      newest.set(track, same);
      all.push(same);
    }
  }
  return all;
}

/** How an event ended: an attempt is as good as its status. */
function toneOfEvent({ event, status }: TraceItem) {
  return event.endsWith('_attempt') && status ? toneOf(status) : toneOf(event);
}

function Step({ same: { first: item, items }, start }: { same: Same; start: string }) {
  const after = (Date.parse(item.at) - Date.parse(start)) / 1000;
  return (
    <li>
      <p class="when">
        <When at={item.at} exact={true} />
        <span class="soft">
          {after === 0 ? 'start' : `+${after < 1 ? '<1 s' : formatSpan(after)}`}
        </span>
      </p>
      <div class="what">
        <p>
          <State name={item.event} tone={toneOfEvent(item)} /> {item.status}
          {item.recipient && (
            <>
              {' '}
              <b>{item.recipient}</b>
            </>
          )}
        </p>
        {item.detail && (
          <p>{item.event.endsWith('_attempt') ? <code>{item.detail}</code> : item.detail}</p>
        )}
        <p class="soft small">{technicalOf(item)}</p>
        {items.length > 1 && <Folded items={items} />}
      </div>
    </li>
  );
}

const technicalOf = ({ delivery_id: delivery, webhook_id: webhook, node }: TraceItem) =>
  [
    delivery !== undefined && `delivery ${delivery}`,
    webhook && `webhook ${webhook}`,
    node && `on ${node}`,
  ]
    .filter(Boolean)
    .join(', ');

/** The times of attempts that ended alike. */
function Folded({ items }: { items: readonly TraceItem[] }) {
  return (
    <details>
      <summary>
        {count(items.length, 'attempt')} like this, the last <When at={items.at(-1)?.at} />
      </summary>
      <ul class="soft small">
        {items.map(({ at, node }, index) => (
          <li key={`${at} ${index}`}>
            <When at={at} exact={true} />
            {node && ` on ${node}`}
          </li>
        ))}
      </ul>
    </details>
  );
}
