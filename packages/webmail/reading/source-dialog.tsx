/** What only the source of a message tells: its header, and how to leave the list that sent it. */
import { Button } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { Dialog } from '../ui/dialog.tsx';
import { useLoaded, Waiting } from '../ui/loaded.tsx';
import type { BesideProps, OpenMessage } from './open-message.ts';
import { readUnsubscribe, type UnsubscribeWays } from './unsubscribe.ts';

/** Octets that are read: the header, and the beginning of the text. */
const SHOWN_MAX = 100_000;

async function sourceOf({ mailbox, read }: OpenMessage): Promise<string> {
  const source = await mailbox.source(read.message.id);
  return await source.slice(0, SHOWN_MAX).text();
}

export const SourceDialog = component<BesideProps>(['open', 'close'], ({ open, close }) => {
  const source = useLoaded(() => sourceOf(open));
  return () => (
    <Dialog title="Source" isWide close={close}>
      {source.value === undefined ? (
        <Waiting of={source} />
      ) : (
        <pre class="source" tabindex="0">
          {source.value}
        </pre>
      )}
    </Dialog>
  );
});

export const UnsubscribeDialog = component<BesideProps>(['open', 'close'], ({ open, close }) => {
  const ways = useLoaded(async () => readUnsubscribe(await sourceOf(open)));
  const writeTo = (url: string) => {
    close();
    open.writeTo(url);
  };
  return () => (
    <Dialog title="Unsubscribe" close={close}>
      {ways.value ? <Ways ways={ways.value} writeTo={writeTo} /> : <Waiting of={ways} />}
    </Dialog>
  );
});

interface WaysProps {
  readonly ways: UnsubscribeWays;
  readonly writeTo: (url: string) => void;
}

const Ways = ({ ways: { page, mailto }, writeTo }: WaysProps) =>
  page || mailto ? (
    <>
      <p>
        The sender of this list offers it. If you never signed up, mark the message as spam: an
        answer shows that somebody reads it.
      </p>
      <div class="bar wrap last">
        {mailto && <Button class="plain" label="Write a mail" press={() => writeTo(mailto)} />}
        {page && (
          <a class="button" href={page} target="_blank" rel="noopener noreferrer nofollow">
            Open {new URL(page).host}
          </a>
        )}
      </div>
    </>
  ) : (
    <p>This message does not say how to unsubscribe.</p>
  );
