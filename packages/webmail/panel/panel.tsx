/** What the app and the server say to each other, as it happens: for people who build an app of their own. */
import { ref, shallowRef, watchEffect } from 'vue';
import type { TrafficEvent } from '../../sdk/src/mail/client.ts';
import type { OpenedProps } from '../state/parts.ts';
import { Tool } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { sets } from '../ui/sets.ts';
import { addTraffic, isFailure, type TrafficEntry } from './traffic-log.ts';
import './panel.css';

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export const ProtocolPanel = component<OpenedProps>(['account', 'close'], ({ account, close }) => {
  const entries = shallowRef<readonly TrafficEntry[]>([]);
  /** Written when it is unfolded: two hundred answers that nobody reads would make the page slow. */
  const unfolded = ref(new Set<number>());
  watchEffect((onCleanup) => {
    const take = (event: TrafficEvent) => {
      entries.value = addTraffic(entries.value, event);
    };
    onCleanup(account.client.on('traffic', take));
  });
  const row = (entry: TrafficEntry) => {
    const { direction, channel, title, at } = entry.event;
    const line = (
      <>
        <span class="arrow" role="img" aria-label={direction}>
          {direction === 'sent' ? '↑' : '↓'}
        </span>
        <span class={['title cut', { bad: isFailure(entry.event) }]}>
          {channel === 'websocket' ? `WS ${title}` : title}
        </span>
        <time>{clock.format(at)}</time>
      </>
    );
    if (entry.text === '') return <p class="ruled">{line}</p>;
    return (
      <details onToggle={() => unfolded.value.add(entry.id)}>
        <summary class="ruled">{line}</summary>
        {unfolded.value.has(entry.id) && <pre tabindex="0">{entry.text}</pre>}
      </details>
    );
  };
  return () => (
    <aside class="protocol" aria-label="Protocol">
      <header class="bar">
        <h2>What the app says to the server</h2>
        <Tool icon="delete" label="Clear" press={sets(entries, [])} />
        <Tool icon="close" label="Close the protocol" press={close} />
      </header>
      <p class="soft small">
        The newest first, without passwords and tokens. <a href="/docs/">How it works</a>
      </p>
      <ol>
        {entries.value.toReversed().map((entry) => (
          <li key={entry.id}>{row(entry)}</li>
        ))}
      </ol>
    </aside>
  );
});
