CREATE TABLE `old_temporals` (
  `id` int(11) NOT NULL,
  `date` date DEFAULT NULL,
  `time0` time /* mariadb-5.3 */ DEFAULT NULL,
  `datetime0` datetime /* mariadb-5.3 */ DEFAULT NULL,
  `timestamp0` timestamp /* mariadb-5.3 */ NULL DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci ROW_FORMAT=DYNAMIC;
