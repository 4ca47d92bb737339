-- Limits of a type, over all replicas: runs at once, and starts in any period; for all of its
-- tasks, and for those that have one key in common. Without limits: an empty table.
local function limits_of(text)
  local limits, numbers = {}, {}
  if text == '' then
    return limits
  end
  for word in string.gmatch(text, '%S+') do
    -- A word that is no number stands for no limit.
    numbers[#numbers + 1] = tonumber(word) or false
  end
  local running, count, period, key_running, key_count, key_period = unpack(numbers)
  local window = count and sliding_window(root .. 'starts', count, period)
  if key_running or key_count then
    limits.keys = key_limits(key_running, key_count, key_period)
  end

  -- How many of those that are wanted may be taken.
  function limits.cut(want)
    limits.room = running and running - redis.call('ZCARD', leased)
    limits.tokens = window and window.free()
    return math.max(0, math.min(want, limits.room or want, limits.tokens or want))
  end

  local function note_starts(fence, plain, rows)
    local starts, taken = {}, #plain / 3 + #rows
    for index = 1, taken do
      local row = rows[index - #plain / 3]
      starts[index * 2 - 1] = int(math.max(row and tonumber(row[4]) or now, now))
      starts[index * 2] = fence .. ' ' .. index
    end
    window.note(starts)
  end

  -- Takes note of what was taken after a cut; answers when to look again, if next_due is the
  -- earliest in due.
  function limits.settle(fence, plain, rows, next_due)
    local taken = #plain / 3 + #rows
    if window then
      note_starts(fence, plain, rows)
      if limits.tokens <= taken and next_due ~= '' then
        next_due = int(math.max(tonumber(next_due), window.at(0)))
      end
    end
    if running then
      freed = freed and limits.room > taken
      if limits.room <= taken then
        redis.call('HSET', meta, 'full', '1')
        next_due = ''
      end
    end
    return next_due
  end

  return limits
end
