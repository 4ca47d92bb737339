-- The log of a task: lines without line breaks inside, joined by them; the newest come last.
-- 'logged' is FENCE COUNT: how many lines of which run are in it, so that a repeat adds none.

-- Those of size lines, ARGV from place on, that are not in the log yet, and the new 'logged'.
local function new_lines(logged, fence, first, place, size)
  local known_fence, known = string.match(logged or '', '^(%d+) (%d+)$')
  known = known_fence == fence and tonumber(known) or 0
  local fresh = {}
  for offset = 0, size - 1 do
    if first + offset >= known then
      fresh[#fresh + 1] = ARGV[place + offset]
    end
  end
  return fresh, fence .. ' ' .. int(math.max(known, first + size))
end

-- The last lines of a log and of what is added to it, within max_lines and max_bytes.
local function tail(text, added, max_lines, max_bytes)
  local all = {}
  -- Other programs may have put anything there.
  for line in string.gmatch(string.sub(text or '', -max_bytes), '[^\n]+') do
    all[#all + 1] = line
  end
  for _, line in ipairs(added) do
    all[#all + 1] = line
  end
  local from, bytes = #all + 1, 0
  while from > 1 and #all - from + 1 < max_lines and bytes + #all[from - 1] < max_bytes do
    from = from - 1
    bytes = bytes + #all[from] + 1
  end
  return table.concat(all, '\n', from)
end
