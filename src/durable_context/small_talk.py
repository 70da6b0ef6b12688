"""Words people exchange without asking for anything
in the languages most conversations are in."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

Kind = Literal["polite", "filler"]
"""Polite words are never asked for; fillers may be, beside other words."""


def _phrases(rows: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in rows.replace("\n", ",").split(",")) - {""}


COURTESIES: Final = _phrases(
    """
please, thanks, thanks a lot, thanks again, thank you again, many thanks, thx
thank you, thank you so much, thank you very much
bitte, danke, danke schön, dankeschön, vielen dank, danke dir, danke sehr, besten dank
merci, merci beaucoup, s'il vous plaît, s'il te plaît, s'il vous plait, s'il te plait, stp, svp
por favor, gracias, muchas gracias, per favore, per piacere, grazie, grazie mille, obrigado
obrigada, muito obrigado, muito obrigada, alsjeblieft, alstublieft, dank je, dank je wel, dank u
dank u wel, bedankt
"""
)
"""Taken out wherever they stand."""

GREETINGS: Final = _phrases(
    """
привет, здравствуйте, добрый день, доброе утро, добрый вечер, спасибо, спасибо большое, пожалуйста
привіт, дякую, cześć, dzień dobry, dziękuję, ahoj, dobrý den, děkuji, merhaba, selam, günaydın
teşekkürler, teşekkür ederim, مرحبا, السلام عليكم, شكرا, شكرا جزيلا, שלום, תודה, γεια σου, γεια
ευχαριστώ, καλημέρα, नमस्ते, धन्यवाद, xin chào, cảm ơn, halo, terima kasih, hej, tack, god morgon
tak, takk, moi, hei, kiitos, szia, köszönöm, bună ziua, mulțumesc
hi, hello, hey, hi again, hello again, hiya, howdy, dear, ok, okay, okey
bye, bye bye, goodbye, good bye, cheers
good morning, good afternoon, good evening, good night, good day, greetings, welcome back
how are you, how are you doing, how are you today, how are you doing today, how's it going
how is it going, how have you been, what's up, hope you are well, hope you're well
nice to meet you, nice to see you, good to see you, see you, see you later, see you soon
see you tomorrow, talk to you later, have a nice day, have a great day
have a good one, you're welcome, you are welcome, no problem, my pleasure
hallo, moin, servus, grüß gott, guten tag, guten morgen, guten abend, gute nacht, tschüss, tschüß
auf wiedersehen, bis bald, bis später, bis morgen, liebe grüße, wie geht's, wie geht es dir
wie geht es ihnen, gern geschehen
bonjour, bonsoir, salut, coucou, bonne nuit, bonne journée, au revoir, à bientôt, à demain
ça va, comment ça va, comment allez-vous, de rien
hola, buenos días, buenas tardes, buenas noches, buenas, adiós, hasta luego, hasta mañana
qué tal, cómo estás, cómo está, de nada
ciao, salve, buongiorno, buonasera, buonanotte, arrivederci, a presto, come stai, come va, prego
olá, oi, bom dia, boa tarde, boa noite, tchau, até logo, até amanhã, tudo bem, como vai
hoi, goedemorgen, goedemiddag, goedenavond, goedendag, goede morgen, goede avond, doei, dag
tot ziens, tot morgen, hoe gaat het
"""
)
"""Taken out where a sentence begins."""

FILLERS: Final = _phrases(
    """
yes, yeah, yep, yup, ya, yes please, no, nope, nah, sure, sure thing, of course, right
that's right, alright, all right, fine, great, perfect, cool, awesome, amazing, excellent
wonderful, fantastic, nice, lovely, brilliant, super, sweet, neat, beautiful, impressive
interesting, good, very good, well done, good job, good one, take care, nice job, great job
nice work, great work, good work, nice one
absolutely, definitely, exactly, precisely, totally, indeed, correct, agreed, agree, i agree
understood, noted, acknowledged, really, wow, oh, ah, aha, uh, um, er, well, lol, rofl, lmao, yay
sounds good, sounds great, sounds fine, sounds perfect, sound good, looks good, looks great, lgtm
makes sense, make sense, works for me, fair enough, good point, good idea, got it, i see, gotcha
never mind, nevermind, no worries, my bad, sorry, go on, go ahead, carry on, keep going, continue
please continue, proceed, next, move on, let's go, let's continue, let's do it, love it
i love it, like it, i like it, that's it, that's all, nothing else, done, ready, it works
that works, it worked, that worked, i'm glad, congrats, congratulations
ha, haha, hahaha, hahahaha, hahahahaha, hah, hehe, hehehe, hihi, jaja, jajaja, lool, xd, kk, kkk
hm, hmm, hmmm, mm, mmm, mhm, wooow, woow, ohh, ooh, ahh, yess, yesss, yes yes, whoa, oof, ugh, huh
ja, jawohl, jo, nein, nee, nö, klar, genau, stimmt, richtig, toll, perfekt, prima, klasse, spitze
gut, sehr gut, wunderbar, ausgezeichnet, verstanden, einverstanden, alles klar, passt, klingt gut
in ordnung, weiter, mach weiter, weitermachen, weiter so, natürlich, sicher, gerne, gern, ach so
oui, non, ouais, parfait, génial, très bien, bien, bien sûr, d'accord, compris, entendu
exactement
continue, continuez, vas-y, allez-y, ça marche, c'est bon, excellent, magnifique, voilà
sí, si, vale, claro, perfecto, genial, exacto, entendido, de acuerdo, muy bien, continúa, sigue
adelante, estupendo, excelente, por supuesto, está bien
sì, certo, perfetto, va bene, ottimo, esatto, capito, d'accordo, continua, avanti, bene
molto bene, fantastico, sim, não, certo, claro, perfeito, ótimo, legal, entendi, beleza, continua
muito bem, com certeza, prossiga
ja hoor, nee hoor, prima, perfect, leuk, goed, heel goed, begrepen, klopt, ga verder, ga door
uitstekend, natuurlijk, zeker, precies, mooi
"""
)
"""Praise, assent and leave to go on: nothing is asked where nothing else is said."""

UNSPACED_GREETINGS: Final = _phrases(
    """
你好, 您好, 大家好, 谢谢你, 谢谢您, 谢谢, 謝謝你, 謝謝您, 謝謝, 多谢, 多謝, 再见, 再見, 拜拜
早上好, 下午好, 晚上好, 晚安, 早安
请问, 請問, 辛苦了, 不客气, 不客氣, 麻烦你, 麻煩你
こんにちは, こんばんは, おはようございます, おはよう, ありがとうございました, ありがとうございます
ありがとう
すみません, よろしくお願いします, お願いします, お疲れ様です, お疲れさまです, さようなら
おやすみなさい, どうぞ
안녕하세요, 안녕하십니까, 안녕히, 안녕, 감사합니다, 감사해요, 고맙습니다, 고마워요, 고마워
부탁드립니다, 부탁해요
สวัสดีครับ, สวัสดีค่ะ, สวัสดี, ขอบคุณครับ, ขอบคุณค่ะ, ขอบคุณ
"""
)
"""Taken out wherever they stand."""

UNSPACED_FILLERS: Final = _phrases(
    """
好, 好的, 好吧, 好啊, 嗯, 嗯嗯, 是, 是的, 对, 对的, 對, 不, 不是, 没错, 沒錯, 可以, 行, 当然, 當然
明白, 明白了, 知道了
了解, 收到, 太好了, 太棒了, 很好, 非常好, 不错, 不錯, 完美, 继续, 请继续, 繼續, 請繼續, 继续吧
没问题, 沒問題, 哈哈, 哈哈哈, 哦, 啊
はい, いいえ, うん, ううん, ええ, なるほど, わかりました, 分かりました, わかった, 分かった
了解です, 了解しました, 承知しました
いいね, いいですね, そうですね, そうです, そう, すごい, 素晴らしい, 完璧, 完璧です, 続けて
続けてください, 大丈夫, 大丈夫です, 次
네, 예, 응, 아니요, 아니, 좋아, 좋아요, 좋습니다, 그래, 그래요, 맞아, 맞아요, 맞습니다, 알겠습니다
알겠어요, 알았어
계속, 계속해, 계속해주세요, 계속해요, 주세요, 완벽해요, 최고예요, 대박, 물론, 물론이죠
ครับ, ค่ะ, ใช่, ไม่, โอเค, ดีมาก, ต่อ, เข้าใจแล้ว
"""
)
"""Runs that ask nothing where nothing else is said."""

WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def small_talk(words: Sequence[str]) -> list[Kind | None]:
    """The kind of small talk each word of a clause in lower case is part of; empty if none is."""
    if _WORDS.isdisjoint(words) and _BEGINNINGS.isdisjoint(pairwise(words)):
        return []
    kinds: list[Kind | None] = []
    greets = True
    while len(kinds) < len(words):
        if words[len(kinds)] not in _PHRASES:
            kinds.append(None)
            greets = False
            continue
        kind, length = _phrase_at(words, len(kinds), greets=greets)
        greets = greets and kind == "polite"
        kinds.extend(kind for _ in range(length))
    return kinds


def _phrase_at(words: Sequence[str], start: int, *, greets: bool) -> tuple[Kind | None, int]:
    for phrase, found in _PHRASES.get(words[start], ()):
        if tuple(words[start : start + len(phrase)]) == phrase:
            is_polite = found is COURTESIES or (found is GREETINGS and greets)
            return "polite" if is_polite else "filler", len(phrase)
    return None, 1


def _by_first_word() -> dict[str, list[tuple[tuple[str, ...], frozenset[str]]]]:
    """All phrases, of those that begin alike the longest first."""
    found: dict[str, list[tuple[tuple[str, ...], frozenset[str]]]] = {}
    for phrases in (COURTESIES, GREETINGS, FILLERS):
        for phrase in phrases:
            words = tuple(WORD.findall(phrase))
            found.setdefault(words[0], []).append((words, phrases))
    for alike in found.values():
        alike.sort(key=lambda one: -len(one[0]))
    return found


_PHRASES: Final = _by_first_word()
_WORDS: Final = frozenset(first for first, alike in _PHRASES.items() if len(alike[-1][0]) == 1)
_BEGINNINGS: Final = frozenset(
    phrase[:2] for alike in _PHRASES.values() for phrase, _ in alike if len(phrase) > 1
)
