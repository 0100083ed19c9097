/** The small parts that every screen is made of. */
import { defineComponent, type FunctionalComponent, ref } from 'vue';
import type { ApiError } from '../api/client.ts';
import { formatClock, formatTime, formatWhen } from './format.ts';

export { State, type Tone, toneOf } from './state.tsx';

interface WhenProps {
  at: string | undefined;
  /** The full time in place of how long ago it is. */
  exact?: boolean;
}

/** A time: how long ago within a day, else the day; exact with its zone where the pointer rests. */
export const When: FunctionalComponent<WhenProps> = ({ at, exact }) =>
  at === undefined ? (
    <span class="soft">never</span>
  ) : (
    <time datetime={at} title={formatTime(at)}>
      {exact ? formatTime(at) : formatWhen(at)}
    </time>
  );

interface FailureProps {
  error: ApiError | undefined;
  retry?: () => void;
  /** When what is shown was read, in milliseconds since 1970; left out, nothing is shown. */
  since?: number | undefined;
}

/** What the API said no with. */
export const Failure: FunctionalComponent<FailureProps> = ({ error, retry, since }) =>
  error && (
    <div class="notice bad" role="alert">
      <p>
        {since && `This is from ${formatClock(since)}. `}
        {error.message}
      </p>
      {error.requestId && (
        <p class="small">
          Request <code>{error.requestId}</code>
        </p>
      )}
      {retry && (
        <button type="button" class="plain" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );

/** What stands where there is nothing to show. */
export const Empty: FunctionalComponent<{ title: string }> = ({ title }, { slots }) => (
  <div class="empty">
    <p class="title">{title}</p>
    <p class="soft">{slots.default?.()}</p>
  </div>
);

/** The heading of a screen, and what can be done on it. */
export const Heading: FunctionalComponent<{ title: string; lead?: string }> = (
  { title, lead },
  { slots },
) => (
  <header class="heading">
    <div>
      <h1 tabindex="-1">{title}</h1>
      {lead && <p class="lead">{lead}</p>}
    </div>
    {slots.default && <div class="actions">{slots.default()}</div>}
  </header>
);

/** A framed part of a screen. */
export const Card: FunctionalComponent<{ title?: string }> = ({ title }, { slots }) => (
  <section class="card" aria-label={title}>
    {(title || slots.actions) && (
      <header>
        <h2>{title}</h2>
        {slots.actions?.()}
      </header>
    )}
    {slots.default?.()}
  </section>
);

interface FactsProps {
  facts: readonly (readonly [name: string, value: unknown])[];
  /** Side by side where there is room, in place of one below the other. */
  isAcross?: boolean;
}

/** Names and their values. */
export const Facts: FunctionalComponent<FactsProps> = ({ facts, isAcross }) => (
  <dl class={['facts', { across: isAcross }]}>
    {facts.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/** A value to be pasted elsewhere, with a button that copies it. */
export const Copyable = defineComponent(
  (props: { text: string; name: string }) => {
    const done = ref<string>();
    const code = ref<HTMLElement>();
    const copy = async () => {
      // Browsers lend the clipboard to pages that came by HTTPS or from this machine alone.
      const isCopied = await navigator.clipboard?.writeText(props.text).then(
        () => true,
        () => false,
      );
      if (!isCopied && code.value) getSelection()?.selectAllChildren(code.value);
      done.value = isCopied ? 'Copied' : 'Selected';
      setTimeout(() => {
        done.value = undefined;
      }, 2000);
    };
    return () => (
      <span class="copyable">
        <code ref={code}>{props.text}</code>
        <button
          type="button"
          class="plain"
          aria-label={`Copy ${props.name}`}
          onClick={() => void copy()}
        >
          {done.value ?? 'Copy'}
        </button>
      </span>
    );
  },
  { props: ['text', 'name'] },
);
