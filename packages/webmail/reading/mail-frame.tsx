/** The frame in which an HTML mail is shown: as high as the mail, so that a conversation scrolls as one page. */
import { computed, onBeforeUnmount, onMounted, ref, watch } from 'vue';
import { component } from '../ui/component.ts';
import { pressKey } from '../ui/keys.ts';
import { FRAME_RIGHTS, readFrameMessage } from './frame-script.ts';
import { type MailDocumentOptions, writeMailDocument } from './mail-document.ts';

interface FrameProps extends MailDocumentOptions {
  readonly html: string;
  /** How many pictures are not shown; told whenever the document is written. */
  readonly onBlocked?: (blocked: number) => void;
  /** Somebody pressed an address in the mail. */
  readonly onMailto?: (url: string) => void;
}

/**
 * A height that depends on the height of the frame grows with it. The cleaner takes out what is known to; for the rest
 * so many heights are taken, and then the mail scrolls in its frame.
 */
const HEIGHTS_MAX = 120;

export const MailFrame = component<FrameProps>(
  ['html', 'images', 'withRemote', 'isDark', 'onBlocked', 'onMailto'],
  (props) => {
    const frame = ref<HTMLIFrameElement>();
    const height = ref(120);
    const isSized = ref(false);
    let heights = 0;
    const document = computed(() => {
      heights = 0;
      return writeMailDocument(props.html, props);
    });
    watch(document, ({ blocked }) => props.onBlocked?.(blocked), { immediate: true });
    const listen = ({ source, data }: MessageEvent) => {
      // The frame has no origin to look at: its window says whose message it is.
      if (!frame.value || source !== frame.value.contentWindow) return;
      const told = readFrameMessage(data);
      if (!told) return;
      if ('height' in told) {
        heights++;
        if (heights > HEIGHTS_MAX) return;
        height.value = told.height;
        isSized.value = true;
      } else if ('key' in told) {
        pressKey(new KeyboardEvent('keydown', { key: told.key, cancelable: true }));
      } else if ('top' in told) {
        frame.value.style.scrollMarginTop = `${-told.top}px`;
        frame.value.scrollIntoView();
      } else props.onMailto?.(told.mailto);
    };
    // A mail that was laid out for another width has another height.
    const forget = () => {
      heights = 0;
    };
    const gone = new AbortController();
    onMounted(() => {
      addEventListener('message', listen, gone);
      addEventListener('resize', forget, gone);
    });
    onBeforeUnmount(() => gone.abort());
    return () => (
      // Each document has a frame of its own: Chromium loses a srcdoc that is set while the one before is loading.
      <iframe
        key={document.value.source}
        ref={frame}
        class={['mail-frame', { bare: document.value.isBare }]}
        title="The message"
        sandbox={FRAME_RIGHTS}
        srcdoc={document.value.source}
        data-sized={isSized.value || undefined}
        style={{ height: `${height.value}px` }}
      />
    );
  },
);
