/** The HTML of a message, with pictures from elsewhere off until the reader wants them. */
import { computed, ref } from 'vue';
import { isDark } from '../state/brand.ts';
import { picturesFrom } from '../state/remembered.ts';
import { Button } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { sets } from '../ui/sets.ts';
import { MailFrame } from './mail-frame.tsx';
import type { OpenMessage } from './open-message.ts';
import { isTrusted } from './sender-check.ts';

/** Senders whose pictures are remembered. */
const SENDERS_MAX = 1000;

export const MailText = component<{ open: OpenMessage }>(['open'], ({ open }) => {
  const { message, auth, html = '' } = open.read;
  /** Whose pictures may be shown for good: an address that may be forged has no such right. */
  const sender = isTrusted(auth) && message.envelope.from?.[0]?.address?.toLowerCase();
  const blocked = ref(0);
  const isWanted = ref(false);
  const withRemote = computed(
    () => isWanted.value || (sender && picturesFrom.value.includes(sender)) || false,
  );
  const always = () => {
    if (sender) picturesFrom.value = [...picturesFrom.value, sender].slice(-SENDERS_MAX);
  };
  const tellBlocked = (count: number) => {
    blocked.value = count;
  };
  return () => (
    <>
      {blocked.value > 0 && !withRemote.value && (
        <p class="pictures-off bar wrap soft small">
          <span>
            Pictures from elsewhere are off: loading them tells the sender that you read this.
          </span>
          <Button class="link" label="Show pictures" press={sets(isWanted, true)} />
          {sender && <Button class="link" label={`Always from ${sender}`} press={always} />}
        </p>
      )}
      <MailFrame
        html={html}
        images={open.images}
        withRemote={withRemote.value}
        isDark={isDark.value}
        onBlocked={tellBlocked}
        onMailto={open.writeTo}
      />
    </>
  );
});
