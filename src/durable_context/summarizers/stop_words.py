"""Words that say nothing about a topic, in the languages most conversations are in.

A word that names a thing in one of them ("car", "door", "sea") is left out: rarity decides.
"""

from typing import Final

_WORDS = """
a about above after again all already also always am an and any anything are aren't around as at
away back be because been before being below between both but by came can can't cannot come could
couldn't did didn't do does doesn't doing don't done down during each either else even ever every
everything few first for from further get gets getting give go goes going gone good got had hadn't
has hasn't have haven't having he he'd he'll he's her here here's hers herself hey hi hello him
himself his how how's however i i'd i'll i'm i've if in instead into is isn't it it's its itself
just keep know last less let let's like likely made make makes many may maybe me might more most
much must my myself need needs never no nor not nothing now of off oh ok okay on once one only
onto or other our ours ourselves out over own per perhaps please possible put quite rather really
right said same say says see seem seems shall she she's should shouldn't since so some something
soon still such sure take taken than thank thanks that that's the their theirs them themselves
then there there's these they they're they've thing things think this those though through thus to
together too toward try trying under until up upon us use used using very via want wants was
wasn't way we we'd we'll we're we've well went were weren't what what's when when's where where's
whether which while who who's whom whose why will with within without won't would wouldn't yeah
yep yes yet you you'd you'll you're you've your yours yourself currently great awesome amazing wow
glad nice cool lot lots kind pretty ago today tomorrow tonight yesterday

aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den
der des dich dies diese dieser doch dort du durch ein eine einem einen einer eines er es euch für
gut habe haben hat hatte ich ihm ihn ihr ihre im in ist ja jetzt kann kein keine können mein meine
mich mir mit muss nach nicht noch nur ob oder ohne schon sehr sein seine sich sie sind so soll
über um und uns unser unter viel vom von vor waren was weil wenn wer wie wieder wir wird wo würde
zu zum zur bitte danke gerne hallo

alors au aussi aux avec avoir bien c'est ce cela ces cet cette comme dans de donc du elle en
encore est et été être fait il ils j'ai je la le les leur lui ma mais me même mes moi mon ne nos
notre nous on ont ou où par pas peut plus pour qu'il que qui sa sans se ses si son sont sur ta te
tes toi ton tous tout très tu un une vos votre vous merci bonjour

algo antes como con contra cual cuando del desde donde dos el ella ellos entre es esa ese eso esta
está este esto fue ha hace hay la las le lo los más me mi mis mucho muy nada ni no nos o os otra
otro para pero poco por porque pues que qué quien se ser si sí sobre su sus también tanto te tengo
tiene todo todos tu tus un una uno unos usted y ya yo gracias hola

che chi ci come con cosa da dal della delle di dove e è gli ha hai ho il io l'ho le lei li lo ma
mi mia mio molto nel nella noi non o per perché più poi può quando quella quello questa questo sei
si sono su sua suo tra ti tu un una uno voi grazie ciao

ao aos até com como da das de dela dele do dos ela ele em entre essa esse esta está eu foi isso
isto já mais mas me meu minha muito na não nas no nos nós num o os ou para pela pelo por porque
quando que se sem ser seu sua também tem tenho um uma você obrigado obrigada

aan als bij dan dat de deze dit een en er geen had heb hebben heeft het hij hoe ik is je kan maar
me meer met mij mijn naar niet nog nu of om omdat ons onze ook op over te toch tot uit van veel
voor was wat we wel werd wie wij wordt ze zich zij zijn zo zou
"""

STOP_WORDS: Final = frozenset(_WORDS.split())
