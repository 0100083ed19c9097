/** What happened to one message: from the connection to the mailbox, webhook or bounce. */
import type { TraceItem } from '../api/types.ts';
import { State, toneOf, When } from '../ui/basics.tsx';
import { formatSpan } from '../ui/format.ts';

/** The oldest first. */
export function TimeLine({ items }: { items: readonly TraceItem[] }) {
  const start = items[0]?.at ?? '';
  return (
    <ol class="time-line">
      {items.map((item, index) => (
        <Step key={`${item.at} ${index}`} item={item} start={start} />
      ))}
    </ol>
  );
}

/** How an event ended: an attempt is as good as its status. */
function toneOfEvent({ event, status }: TraceItem) {
  return event.endsWith('_attempt') && status ? toneOf(status) : toneOf(event);
}

function Step({ item, start }: { item: TraceItem; start: string }) {
  const after = (Date.parse(item.at) - Date.parse(start)) / 1000;
  const { delivery_id: delivery, webhook_id: webhook } = item;
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
        {item.detail && <p>{item.detail}</p>}
        <p class="soft small">
          {[
            delivery !== undefined && `delivery ${delivery}`,
            webhook && `webhook ${webhook}`,
            item.node && `on ${item.node}`,
          ]
            .filter(Boolean)
            .join(', ')}
        </p>
      </div>
    </li>
  );
}
