"""A tune of additive voices: harmonics, envelopes, chorus, distortion, echo, 16-bit samples."""

import sys

import numpy as np

RATE = 44_100


def voice(frequency, seconds, rng):
    t = np.arange(int(RATE * seconds)) / RATE
    tone = np.zeros_like(t)
    for k in range(1, 9):
        vibrato = 0.002 * np.sin(2 * np.pi * 5.5 * t + k)
        tone += np.sin(2 * np.pi * k * frequency * (t + vibrato / k)) / k**1.3
    attack = np.minimum(t / 0.02, 1.0)
    decay = np.exp(-3.0 * t / seconds)
    breath = rng.normal(0, 0.01, len(t)) * decay
    return (tone * attack + breath) * decay


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(113)
notes = [0, 4, 7, 12, 7, 4, 5, 9, 12, 9, 5, 2] * 2
length = 1.5 * size
mix = np.zeros(int(RATE * (len(notes) * length * 0.5 + length + 1)))
for number, note in enumerate(notes):
    start = int(number * length * 0.5 * RATE)
    for detune in (-0.03, 0.03):
        tone = voice(220 * 2 ** ((note + detune) / 12), length, rng)
        mix[start : start + len(tone)] += tone
mix = np.tanh(1.5 * mix / np.abs(mix).max())
delay = int(0.18 * RATE)
wet = mix.copy()
for k in range(1, 5):
    wet[k * delay :] += 0.5**k * mix[: -k * delay]
wet /= np.abs(wet).max()
samples = np.round(wet * 32767).astype(np.int16)
blocks = wet[: len(wet) // 1024 * 1024].reshape(-1, 1024)
rms = np.sqrt((blocks**2).mean(axis=1))
print("seconds", len(wet) / RATE, "rms", wet.std())
print("loudness", rms.max(), np.median(rms))
print("level", 20 * np.log10(rms.max() + 1e-12), "samples", samples.max(), samples.min())
print("crossings", np.count_nonzero(np.diff(np.signbit(mix))))
