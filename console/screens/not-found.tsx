import { defineComponent } from 'vue';
import { RouterLink } from 'vue-router';
import { Heading } from '../ui/basics.tsx';

export const NotFound = defineComponent(() => () => (
  <div class="screen">
    <Heading title="Nothing is here" lead="The console has no screen at this address." />
    <p>
      <RouterLink to="/">{() => 'To the overview'}</RouterLink>
    </p>
  </div>
));
