/** The text of a message, with pictures from elsewhere off until the reader wants them. */
import { computed, defineComponent, type FunctionalComponent, ref } from 'vue';
import { picturesFrom } from '../state/remembered.ts';
import { isDark } from './dark.ts';
import { MailFrame } from './mail-frame.tsx';
import { PlainText } from './plain-text.tsx';
import { isTrusted } from './sender-check.ts';
import type { OpenMessage } from './use-message.ts';

interface TextProps {
  readonly open: OpenMessage;
  readonly asText: boolean;
  readonly onMailto: (url: string) => void;
}

/** Senders whose pictures are remembered. */
const SENDERS_MAX = 1000;

interface BannerProps {
  readonly sender: string | undefined;
  readonly show: () => void;
  readonly always: () => void;
}

const PicturesOff: FunctionalComponent<BannerProps> = ({ sender, show, always }) => (
  <p class="pictures-off">
    <span>Pictures from elsewhere are off: loading them tells the sender that you read this.</span>
    <button type="button" class="link" onClick={show}>
      Show pictures
    </button>
    {sender !== undefined && (
      <button type="button" class="link" onClick={always}>
        Always from {sender}
      </button>
    )}
  </p>
);
PicturesOff.props = ['sender', 'show', 'always'];

export const MessageText = defineComponent(
  (props: TextProps) => {
    const blocked = ref(0);
    /** Whose pictures may be shown for good: an address that may be forged has no such right. */
    const sender = computed(() => {
      const { message, auth } = props.open.read;
      return isTrusted(auth) ? message.envelope.from?.[0]?.address?.toLowerCase() : undefined;
    });
    const isWanted = ref(false);
    const withRemote = computed(
      () => isWanted.value || picturesFrom.value.includes(sender.value ?? ''),
    );
    const show = () => {
      isWanted.value = true;
    };
    const always = () => {
      if (sender.value)
        picturesFrom.value = [...picturesFrom.value, sender.value].slice(-SENDERS_MAX);
    };
    const tellBlocked = (count: number) => {
      blocked.value = count;
    };
    return () => {
      const { text, html } = props.open.read;
      if (html !== undefined && !props.asText) {
        return (
          <>
            {blocked.value > 0 && !withRemote.value && (
              <PicturesOff sender={sender.value} show={show} always={always} />
            )}
            <MailFrame
              html={html}
              images={props.open.images}
              withRemote={withRemote.value}
              isDark={isDark.value}
              onBlocked={tellBlocked}
              onMailto={props.onMailto}
            />
          </>
        );
      }
      return text?.trim() ? (
        <PlainText text={text} onMailto={props.onMailto} />
      ) : (
        <p class="soft">This message has no text.</p>
      );
    };
  },
  { props: ['open', 'asText', 'onMailto'] },
);
