/** Reads the message that a component shows, again whenever it is another one. */
import { computed, type Ref, ref, type ShallowRef, shallowRef, watch } from 'vue';
import type { MailboxHandle, MailMessage, ReadMessage } from '../../sdk/src/mail/client.ts';
import type { Account } from '../state/parts.ts';
import { readPictures, type SortedFiles, sortFiles } from './files.ts';

/** A message that was read, with what is shown of it. */
export interface OpenMessage extends SortedFiles {
  readonly mailbox: MailboxHandle;
  readonly read: ReadMessage;
  /** `data:` URLs by Content-ID. */
  readonly images: Readonly<Record<string, string>>;
}

export interface UsedMessage {
  readonly open: ShallowRef<OpenMessage | undefined>;
  readonly failure: Ref<string | undefined>;
  load(): Promise<void>;
}

export function useMessage(props: { account: Account; message: MailMessage }): UsedMessage {
  const open = shallowRef<OpenMessage>();
  const failure = ref<string>();
  const name = computed(
    () => `${props.account.address}/${props.message.mailbox}/${props.message.id}`,
  );
  const load = async () => {
    const asked = name.value;
    failure.value = undefined;
    try {
      const mailbox = props.account.client.mailbox(props.message.mailbox);
      const read = await mailbox.read(props.message.id);
      const files = sortFiles(read);
      const images = await readPictures(mailbox, read, files.pictures);
      if (asked === name.value) open.value = { mailbox, read, images, ...files };
    } catch (error) {
      if (asked === name.value)
        failure.value = error instanceof Error ? error.message : String(error);
    }
  };
  const start = () => {
    open.value = undefined;
    void load();
  };
  watch(name, start, { immediate: true });
  return { open, failure, load };
}
